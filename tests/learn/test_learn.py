"""The engine of the lessons: sources, replies, sessions, and the verb in a terminal and a pipe."""

import json
import re
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from tiny_lesson import NUMBERS, TINY, shipped  # noqa: F401  # a fixture

from steptime.cli import main
from steptime.errors import SteptimeError, UsageError
from steptime.learn import session as sessions
from steptime.learn.expressions import filled, value_of
from steptime.learn.lesson import Command, Exercise, File, Lesson, Question, Text
from steptime.learn.marking import marks, run_through
from steptime.learn.notebook import NotebookLesson, notebook
from steptime.learn.reply import is_right, read_reply
from steptime.learn.session import Session, open_session
from steptime.learn.source import find_lesson, read_lesson

Say = Callable[..., tuple[int, str, str]]


@pytest.fixture
def tiny(tmp_path: Path) -> Lesson:
    """The tiny lesson."""
    path = tmp_path / "07-tiny.md"
    path.write_text(TINY)
    return read_lesson(path)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The commands that were asked for, which are not run but give their numbers."""
    lines: list[str] = []

    def run_line(line: str, folder: Path, *, captured: bool) -> tuple[str, dict[str, Any]]:
        lines.append(line)
        if "verify" not in line:
            return "a table\n" * captured, NUMBERS
        right = "reduce=True" in (folder / "mine.py").read_text()
        return "a proof\n" * captured, {"ok": right, "results": [{"rounds": 1}]}

    monkeypatch.setattr(sessions, "run_line", run_line)
    return lines


@pytest.fixture
def say(
    shipped: Path,  # noqa: F811, ARG001
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Say:
    """``steptime learn …`` in this process with replies on stdin: code, stdout and stderr."""

    def run(*words: str, replies: str = "", columns: int = 80) -> tuple[int, str, str]:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setattr(sys, "argv", ["steptime", "learn", *words])
        monkeypatch.setattr(sys, "stdin", StringIO(replies))
        with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
            code = main()
        return code, out.getvalue(), err.getvalue()

    return run


def asked(lesson: Lesson, name: str) -> Question:
    return next(one for one in lesson.questions() if one.name == name)


def one_sentence(text: str) -> bool:
    return "\n" not in text.strip() and "Traceback" not in text and len(text) < 400


def test_a_source_becomes_a_lesson_in_its_order(tiny: Lesson) -> None:
    kinds = [Text, File, Question, Question, Command, Exercise, Text]
    assert [type(part) for part in tiny.parts] == kinds
    assert (tiny.number, tiny.title, tiny.minutes) == (7, "Two ranks", 1)
    (command,) = tiny.commands()
    assert [claim.timed for claim in command.claims] == [False, True]
    (exercise,) = tiny.exercises()
    assert "reduce=True" in exercise.solution
    assert "reduce=True" not in exercise.starter
    assert asked(tiny, "rounds").tolerance == 0.05


BROKEN = {
    "no question begins": ("minutes = 1", "minutes = ", "line"),
    "no head": ("```lesson", "```nothing", "one block lesson"),
    "no minutes": ("minutes = 1", "", "a question and minutes"),
    "a claim first": ("```lesson\n", "```lesson\n```\n```claim\n", "one block lesson"),
    "a claim after no command": ("```run ring\n", "```text\n", "claim stands after no command"),
    "no command of ours": ("steptime show ring", "rm -r", "run ring must be one line"),
    "two commands": ("1MB\n", "1MB\nsteptime learn\n", "run ring must be one line"),
    "an unknown field": ("hints = [", "hint = [", "no hint"),
    "a missing field": ('unit = "rounds"\nbecause', "unit", "because"),
    "a field of another type": ("timed = true", "timed = 3", "bool"),
    "a starter of another": ("```starter mine", "```starter yours", "starter yours"),
    "a solution of none": ("```exercise mine", "```text", "starter mine|exercise"),
}


@pytest.mark.parametrize(("old", "new", "why"), BROKEN.values(), ids=list(BROKEN))
def test_a_malformed_source_is_refused_by_name_in_a_sentence(
    old: str, new: str, why: str, tmp_path: Path
) -> None:
    path = tmp_path / "07-broken.md"
    assert old in TINY
    path.write_text(TINY.replace(old, new))
    with pytest.raises(UsageError, match=why) as refused:
        read_lesson(path)
    assert str(refused.value).startswith("07-broken.md is no lesson: ")
    assert one_sentence(str(refused.value))


def test_a_source_without_a_number_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tiny.md"
    path.write_text(TINY)
    with pytest.raises(UsageError, match=r"tiny\.md is no lesson"):
        read_lesson(path)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("2", 2.0),
        (" 2 rounds ", 2.0),
        ("2ROUNDS", 2.0),
        ("2x", 2.0),
        ("3/4", 0.75),
        ("-1e3", -1000.0),
        ("1,024", 1024.0),
        ("1,024,000.5", 1024000.5),
        ("50 %", 50.0),
    ],
)
def test_a_reply_is_a_number(said: str, meant: float, tiny: Lesson) -> None:
    assert read_reply(asked(tiny, "rounds"), said) == meant


@pytest.mark.parametrize(
    "said",
    ["", "two", "nan", "inf", "1e999", "1/0", "1/2/3", "1,75", "2 ms", "--", "9" * 5000],
)
def test_a_reply_that_is_no_number_is_refused_in_a_sentence(said: str, tiny: Lesson) -> None:
    with pytest.raises(UsageError, match="is no number, such as 12") as refused:
        read_reply(asked(tiny, "rounds"), said)
    assert one_sentence(str(refused.value))


@pytest.mark.parametrize(
    ("said", "meant"),
    [("1", "all of it"), ("2", "half of it"), ("HALF", "half of it"), ("all of it", "all of it")],
)
def test_a_reply_is_a_choice(said: str, meant: str, tiny: Lesson) -> None:
    assert read_reply(asked(tiny, "share"), said) == meant


@pytest.mark.parametrize("said", ["", "0", "3", "none", "9" * 5000, "²"])
def test_a_reply_that_is_no_choice_is_refused_in_a_sentence(said: str, tiny: Lesson) -> None:
    with pytest.raises(UsageError, match="is none of all of it, half of it") as refused:
        read_reply(asked(tiny, "share"), said)
    assert one_sentence(str(refused.value))


def test_a_number_is_right_within_its_tolerance_and_a_choice_by_its_words(tiny: Lesson) -> None:
    rounds, share = asked(tiny, "rounds"), asked(tiny, "share")
    assert is_right(rounds, 102.0, 100) and is_right(rounds, 95.0, 100)
    assert not is_right(rounds, 106.0, 100) and not is_right(rounds, -100.0, 100)
    assert is_right(share, "half of it", "half of it")
    assert not is_right(share, "all of it", "half of it")


def test_a_number_that_is_not_there_is_told_in_a_sentence() -> None:
    for words in ("ring.none.deeper", "other", "ring.algorithms[0].rounds + 'a'"):
        with pytest.raises(SteptimeError, match="--again") as refused:
            value_of(words, {"ring": NUMBERS})
        assert one_sentence(str(refused.value))
    with pytest.raises(SteptimeError, match="do not give"):
        filled("{{ ring.none }}", {"ring": NUMBERS})


def test_a_command_judges_what_was_said_before_it(
    tiny: Lesson, told: list[str], tmp_path: Path
) -> None:
    session = open_session(tiny, tmp_path)
    session.reply(asked(tiny, "rounds"), "3")
    session.reply(asked(tiny, "share"), "half")
    (command,) = tiny.commands()
    assert session.settle(asked(tiny, "rounds")) is None
    _, found = session.perform(command)
    assert [one.ok for one in found] == [False, True, True, False]
    assert [one.timed for one in found] == [False, False, False, True]
    assert found[0].text == "2 rounds. One to add up and one to pass on, for 2 ranks."
    assert told == ["steptime show ring --ranks 2 --bytes 1MB"]


def test_a_lesson_run_through_counts_what_holds_and_what_time_decides(
    tiny: Lesson, told: list[str], tmp_path: Path
) -> None:
    session = open_session(tiny, tmp_path, again=True)
    run_through(session)
    counted = marks(session)
    assert (counted["checks"], counted["passed"]) == (4, 4)
    assert counted["by_time"] == {"checks": 1, "passed": 0}
    assert len(told) == 2


def test_progress_is_kept_and_files_of_the_reader_stay(tiny: Lesson, tmp_path: Path) -> None:
    first = open_session(tiny, tmp_path)
    assert (first.folder / "note.py").read_text() == 'print("a script of the lesson")\n'
    first.reply(asked(tiny, "rounds"), "2")
    first.progress.done = 3
    first.keep()
    (first.folder / "mine.py").write_text("mine\n")
    (first.folder / "note.py").write_text("spoilt\n")
    second = open_session(tiny, tmp_path)
    assert (second.progress.done, second.progress.replies) == (3, {"rounds": 2.0})
    assert (second.folder / "mine.py").read_text() == "mine\n"
    assert "script of the lesson" in (second.folder / "note.py").read_text()
    third = open_session(tiny, tmp_path, again=True)
    assert third.progress.done == 0
    assert "reduce" not in (third.folder / "mine.py").read_text().partition("yield")[2]


def test_again_removes_no_folder_that_no_lesson_left(tiny: Lesson, tmp_path: Path) -> None:
    own = tmp_path / "07" / "thesis.txt"
    own.parent.mkdir()
    own.write_text("years of work")
    with pytest.raises(UsageError, match="is no lesson's folder"):
        open_session(tiny, tmp_path, again=True)
    assert own.read_text() == "years of work"


SPOILT = {
    "no JSON": "{",
    "a list": "[]",
    "nothing": "",
    "words for a number": '{"done": "three"}',
    "no number": '{"done": NaN}',
    "findings of another type": '{"findings": {"rounds": 3}}',
    "no text": "\x00\xff",
}


@pytest.mark.parametrize("content", SPOILT.values(), ids=list(SPOILT))
def test_progress_that_is_broken_is_told_in_a_sentence(
    content: str, tiny: Lesson, tmp_path: Path
) -> None:
    kept = open_session(tiny, tmp_path).folder / "progress.json"
    kept.write_bytes(content.encode("latin-1"))
    with pytest.raises(UsageError, match=r"progress.json.*--again") as refused:
        open_session(tiny, tmp_path)
    assert one_sentence(str(refused.value))
    assert open_session(tiny, tmp_path, again=True).progress.done == 0


def test_a_lesson_that_does_not_exist_is_refused(say: Say) -> None:
    for words in (["8"], ["-1"], ["8", "--answers", "--json"], ["8", "--notebook", "a.ipynb"]):
        code, _, err = say(*words)
        assert code == 2
        assert re.match(r"steptime: there is no lesson -?\d: there are 7 to 7", err)
    assert say("seven")[0] == 2
    with pytest.raises(UsageError, match="no lesson 8"):
        NotebookLesson(8)
    assert find_lesson(7).title == "Two ranks"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["7", "--json"], "give --answers too"),
        (["--notebook", "a.ipynb"], "a notebook holds one lesson"),
        (["--again"], "name its number"),
        (["7", "--out", "full"], "cannot write to the output folder full/07"),
        (["7", "--answers", "--out", "full"], "cannot write to the output folder full"),
        (["7", "--notebook", "full/a.ipynb"], "cannot write full/a.ipynb"),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, list) else "",
)
def test_what_cannot_be_is_one_sentence(
    words: list[str], why: str, say: Say, tmp_path: Path
) -> None:
    (tmp_path / "full").write_text("a file where a folder is to be")
    (tmp_path / "lessons" / "08-again.md").write_text(TINY)
    code, _, err = say(*words)
    assert code == 2 if "see steptime learn" in err else 1
    assert why in err
    assert one_sentence(err)


@pytest.mark.usefixtures("told")
def test_the_list_tells_how_far_the_reader_is(say: Say) -> None:
    code, out, err = say()
    assert (code, err) == (0, "")
    assert out.splitlines()[:2] == [
        " 7  Two ranks",
        "    What does a ring of two ranks send? 1 minutes",
    ]
    say("7", replies="2\n1\n\n")
    assert "at part 6 of 7" in say()[1]
    (listed,) = json.loads(say("--json")[1])["lessons"]
    assert listed["done"] == 5
    say("7", replies="\nn\n")
    assert "done, 1 of 3 right" in say()[1]


def test_a_reader_is_asked_helped_judged_and_goes_on_later(say: Say, told: list[str]) -> None:
    code, out, err = say("7", replies="?\n?\nmany\n2\nhalf\n")
    assert (code, err) == (0, "")
    for words in (
        "One round adds up.",
        "There is no more hint.",
        "'many' is no number, such as 12, 0.5 or 3/4.",
        "✓ 2 rounds. One to add up",
        "✓ half of it. There are 2 chunks.",
        "✗ It took no time.",
        "Times decide this one: a busy machine may upset it.",
        "Stopped: steptime learn 7 goes on from here.",
    ):
        assert words in out
    assert told == ["steptime show ring --ranks 2 --bytes 1MB"]
    later = say("7", replies="\n\n?\ns\nn\n")[1]
    assert "from part 5 of 7" in later
    assert "How many rounds" not in later
    assert "It has 1 round, and is wrong." in later
    assert "reduce=True" in later
    assert later.endswith("That was lesson 7. steptime learn lists all of them.\n")
    assert "You have done lesson 7" in say("7")[1]
    assert "How many rounds" in say("7", "--again")[1]


def test_nobody_there_to_reply_stops_politely(say: Say, told: list[str]) -> None:
    for replies in ("", "q\n", "?\n"):
        code, out, err = say("7", "--again", replies=replies)
        assert (code, err) == (0, "")
        assert out.endswith("Stopped: steptime learn 7 goes on from here.\n")
    assert told == []


@pytest.mark.usefixtures("told")
def test_no_line_of_prose_is_longer_than_a_narrow_terminal(say: Say) -> None:
    for columns in (40, 80):
        code, out, _ = say("7", "--answers", columns=columns)
        assert "Two ranks · lesson 7 · 1 minutes" in " ".join(out.split())
        assert ("80 show them whole" in " ".join(out.split())) == (columns == 40)
        assert code == 0
        long = [line for line in out.splitlines() if len(line.rstrip()) > columns]
        assert [line for line in long if not line.startswith("$ ")] == []
    wide = say("7", "--answers", columns=200)[1].splitlines()
    assert max(len(line.rstrip()) for line in wide) <= 80


@pytest.mark.usefixtures("told")
def test_answers_tell_all_and_ask_nothing(say: Say) -> None:
    code, out, err = say("--answers")
    assert (code, err) == (0, "")
    assert "your answer" not in out
    assert "· 2 rounds." in out
    assert "✓ Solved." in out
    (marked,) = json.loads(say("--answers", "--json")[1])["lessons"]
    assert (marked["number"], marked["checks"], marked["passed"]) == (7, 4, 4)
    assert "1 minutes" in say()[1], "the reader's own progress is another"


def test_a_notebook_is_made_of_the_same_parts(say: Say, tiny: Lesson, tmp_path: Path) -> None:
    assert say("7", "--notebook", "a.ipynb")[1] == "notebook: a.ipynb\n"
    written = json.loads((tmp_path / "a.ipynb").read_text())
    assert written == notebook(tiny, answers=False)
    code = "".join(cell["source"] for cell in written["cells"] if cell["cell_type"] == "code")
    assert "st.lesson(7)" in code
    assert 'lesson.answer("rounds", None)  # your answer in rounds' in code
    assert "reduce=True" not in code
    solved = json.loads(say("7", "--notebook", "a.ipynb", "--answers", "--json")[1])
    assert solved == {"verb": "learn", "notebook": "a.ipynb"}
    assert "reduce=True" in (tmp_path / "a.ipynb").read_text()


@pytest.mark.usefixtures("shipped", "told")
def test_a_lesson_in_a_notebook_answers_hints_and_judges(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    lesson = NotebookLesson(7)
    lesson.answer("rounds", 2)
    lesson.answer("share")
    lesson.hint("rounds")
    lesson.hint("rounds")
    lesson.run("ring")
    lesson.judge("mine")
    out = capsys.readouterr().out
    assert out.startswith("Noted: the next run tells.\nOne round adds up.\nThere is no more hint.")
    assert "$ steptime show ring --ranks 2 --bytes 1MB\n\na table\n" in out
    assert "✓ 2 rounds." in out
    assert "· half of it." in out
    assert "✗ It has 1 round, and is wrong." in out


def test_its_commands_run_for_real(tiny: Lesson, tmp_path: Path) -> None:
    session: Session = open_session(tiny, tmp_path)
    run_through(session)
    counted = marks(session)
    assert (counted["checks"], counted["passed"]) == (4, 4)
    assert session.progress.numbers["ring"]["verb"] == "show"
    (exercise,) = tiny.exercises()
    (session.folder / "mine.py").write_text(exercise.starter)
    text, found = session.judge(exercise, captured=True)
    assert found.ok is False
    assert found.text == "It has 1 round, and is wrong."
    assert "mine" in text


def test_a_command_that_fails_is_told_in_a_sentence(tiny: Lesson, tmp_path: Path) -> None:
    session = open_session(tiny, tmp_path)
    for line in ("steptime show nothing", "steptime check none.py --out none"):
        with pytest.raises(SteptimeError, match=r"failed with exit code 2") as failed:
            session.perform(Command("ring", line), captured=True)
        assert one_sentence(str(failed.value))
