"""Every shipped lesson: as its source is, in the terminal, and as a notebook."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from steptime.errors import SteptimeError
from steptime.learn.expressions import names_in
from steptime.learn.lesson import Command, Exercise, Lesson, Question, Text
from steptime.learn.notebook import notebook
from steptime.learn.session import Finding, open_session, progress_in, write_file
from steptime.learn.source import all_lessons

LIVE = {"compare", "train", "record", "replay", "bench", "tune", "generate", "data"}
"""Verbs that measure, so that a second run would give other numbers than those shown."""
UNLESS = {
    "check": set[str](),
    "scale": {"--cluster"},
    "proxy": {"--cluster", "--dry-run", "list", "describe"},
}
"""Those that do so but with one of these words."""


def of_each(lessons: Sequence[Lesson]) -> pytest.MarkDecorator:
    """Of a test that is made of each of some lessons."""
    return pytest.mark.parametrize("lesson", lessons, ids=[f"{one.number:02}" for one in lessons])


each_lesson = of_each(all_lessons())
IN_TERMINAL, AS_NOTEBOOK = all_lessons()[::2], all_lessons()[1::2]
"""Each is run one way; both make the same commands and judge them alike."""


def is_live(words: list[str], runs: set[str]) -> bool:
    """Whether a command measures; ``runs``: the folders that the commands before it left."""
    verb, *rest = words
    if verb == "check" and rest[0] in runs:
        return False
    return verb in LIVE or (verb in UNLESS and not UNLESS[verb] & set(rest))


def told(findings: dict[str, Finding]) -> list[str]:
    """What does not hold though no time decides it."""
    return [
        f"{name}: {one.text}" for name, one in findings.items() if one.ok is False and not one.timed
    ]


def expected(lesson: Lesson) -> set[str]:
    """The names of a lesson's findings, when all of it was done."""
    claims = {f"{one.name} {n}" for one in lesson.commands() for n in range(len(one.claims))}
    named = [*lesson.questions(), *lesson.exercises()]
    return claims | {one.name for one in named}


@each_lesson
def test_a_lesson_asks_before_it_runs_and_names_only_what_it_runs(lesson: Lesson) -> None:
    run: set[str] = set()
    foreseen: list[bool] = []  # others are worked out from what a run has shown
    for part in lesson.parts:
        if isinstance(part, Command | Exercise):
            run.add(part.name)
        if isinstance(part, Command):
            assert all(names_in(claim.holds) <= run for claim in part.claims), part.name
        elif isinstance(part, Exercise):
            assert names_in(part.passes) <= run, part.name
        elif isinstance(part, Question):
            assert names_in(part.answer), f"{part.name} is answered by no run"
            foreseen.append(not names_in(part.answer) <= run)
            assert len(set(part.choices)) == len(part.choices) != 1
            assert part.hints, part.name
    assert {name for one in lesson.questions() for name in names_in(one.answer)} <= run
    assert sum(foreseen) > len(foreseen) / 2


@each_lesson
def test_the_names_within_a_lesson_are_its_own(lesson: Lesson) -> None:
    names = [one.name for one in (*lesson.commands(), *lesson.exercises(), *lesson.questions())]
    of_runs = [one.name for one in (*lesson.commands(), *lesson.exercises())]
    assert len(of_runs) == len(set(of_runs))
    assert len(names) - len(of_runs) == len({one.name for one in lesson.questions()})
    assert not {one.name for one in lesson.questions()} & {one.name for one in lesson.exercises()}


@each_lesson
def test_a_lesson_is_whole(lesson: Lesson) -> None:
    text = "\n".join(part.markdown for part in lesson.parts if isinstance(part, Text))
    assert re.search(r"^## (Now at|Past) \d,\d{3} ranks", text, re.M)
    assert "You can now" in text
    assert any(one.claims for one in lesson.commands())
    assert lesson.question.endswith("?")
    assert 10 <= lesson.minutes <= 20


@each_lesson
def test_what_measures_keeps_its_numbers(lesson: Lesson) -> None:
    runs: set[str] = set()
    for one in (*lesson.commands(), *lesson.exercises()):
        words = shlex.split(one.line)[1:]
        if "--out" in words:
            runs.add(words[words.index("--out") + 1])
        else:
            assert not is_live(words, runs), one.line


def test_lessons_are_numbered_once() -> None:
    numbers = [one.number for one in all_lessons()]
    assert numbers == sorted(set(numbers))
    assert set(numbers) <= set(range(1, 11))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@of_each(IN_TERMINAL)
def test_a_lesson_runs_in_a_terminal_and_its_numbers_hold(lesson: Lesson, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "steptime", "learn", str(lesson.number), "--answers"],
        cwd=tmp_path,
        env=os.environ | {"COLUMNS": "80"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "your answer" not in done.stdout
    progress = progress_in(tmp_path / "learn" / "answers" / f"{lesson.number:02}")
    assert progress.findings.keys() == expected(lesson)
    assert told(progress.findings) == []
    assert progress.done == len(lesson.parts)
    starters_do_not_pass(lesson, tmp_path / "learn" / "answers")


def starters_do_not_pass(lesson: Lesson, out: Path) -> None:
    """Judge what an exercise begins with: it would be none if that were right."""
    session = open_session(lesson, out)
    for exercise in lesson.exercises():
        write_file(session.folder / exercise.file, exercise.starter)
        try:
            _, found = session.judge(exercise, captured=True)
        except SteptimeError:
            continue  # it does not run at all: the reader reads why
        assert found.ok is False, exercise.name
        assert found.text.strip(), exercise.name


@pytest.mark.slow
@pytest.mark.timeout(1800)
@of_each(AS_NOTEBOOK)
def test_a_lesson_runs_as_a_notebook_and_its_numbers_hold(lesson: Lesson, tmp_path: Path) -> None:
    cells = nbformat.reads(json.dumps(notebook(lesson, answers=True)), as_version=4)
    nbformat.validate(cells)
    own = {"IPYTHONDIR": str(tmp_path), "JUPYTER_RUNTIME_DIR": str(tmp_path), "COLUMNS": "80"}
    client = NotebookClient(cells, timeout=1500, kernel_name="python3")
    client.execute(cwd=str(tmp_path), env=os.environ | own)
    progress = progress_in(tmp_path / "learn" / f"{lesson.number:02}")
    assert progress.findings.keys() == expected(lesson)
    assert told(progress.findings) == []
    printed = [one.get("text", "") for cell in cells.cells for one in cell.get("outputs", [])]
    for command in lesson.commands():
        assert any(f"$ {command.line}\n" in text for text in printed), command.name
    starters_do_not_pass(lesson, tmp_path / "learn")
