"""Session: one reader in one lesson; its commands run for real, its progress kept on disk."""

import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from steptime import files
from steptime.errors import UsageError
from steptime.learn.expressions import filled, names_in, value_of
from steptime.learn.lesson import Claim, Command, Exercise, File, Lesson, Question
from steptime.learn.reply import is_right, read_reply
from steptime.learn.running import run_line
from steptime.runs import run_folder

_KEPT = "progress.json"
_MOST_BYTES = 1 << 26


@dataclass(frozen=True)
class Finding:
    """What a run says of a reply, of a claim or of an exercise.

    ``ok`` is None where the reader gave no reply. ``timed``: measured time decided it, which a busy
    machine may upset.
    """

    ok: bool | None
    text: str
    timed: bool = False


@dataclass
class Progress:
    """How far a reader is: the parts seen; by name the replies, the commands' numbers, findings."""

    done: int = 0
    replies: dict[str, float | str] = field(default_factory=dict)
    numbers: dict[str, dict[str, Any]] = field(default_factory=dict)
    findings: dict[str, Finding] = field(default_factory=dict)


@dataclass(frozen=True)
class Session:
    """A reader's lesson, in a folder of its own that holds scripts, runs and the progress."""

    lesson: Lesson
    folder: Path
    progress: Progress

    def keep(self) -> None:
        """Write the progress, so that the lesson goes on from here next time."""
        files.write_json(self.folder / _KEPT, asdict(self.progress))

    def reply(self, question: Question, said: str) -> None:
        """Take down what the reader said; UsageError where it cannot be a reply."""
        self.progress.replies[question.name] = read_reply(question, said)

    def perform(self, command: Command, *, captured: bool = False) -> tuple[str, list[Finding]]:
        """Run a command for real and judge what it decides: open questions, then its claims.

        Returns what it printed, empty unless ``captured`` (else it went to the terminal), and the
        findings. Raises SteptimeError where the command fails.
        """
        text, numbers = run_line(command.line, self.folder, captured=captured)
        self.progress.numbers[command.name] = numbers
        found = {
            question.name: self._judged(question)
            for question in self.lesson.questions()
            if command.name in names_in(question.answer) <= self.progress.numbers.keys()
        } | {
            f"{command.name} {number}": self._claimed(claim)
            for number, claim in enumerate(command.claims)
        }
        self.progress.findings.update(found)
        return text, list(found.values())

    def settle(self, question: Question) -> Finding | None:
        """Judge a question that needs no run of its own; None where a later command decides it."""
        if not names_in(question.answer) <= self.progress.numbers.keys():
            return None
        found = self.progress.findings[question.name] = self._judged(question)
        return found

    def judge(self, exercise: Exercise, *, captured: bool = False) -> tuple[str, Finding]:
        """Run the command that judges the reader's file: what it printed, and the finding."""
        text, numbers = run_line(exercise.line, self.folder, captured=captured)
        self.progress.numbers[exercise.name] = numbers
        ok = bool(value_of(exercise.passes, self.progress.numbers))
        found = Finding(ok, "Solved." if ok else filled(exercise.wrong, self.progress.numbers))
        self.progress.findings[exercise.name] = found
        return text, found

    def _judged(self, question: Question) -> Finding:
        right = value_of(question.answer, self.progress.numbers)
        said = self.progress.replies.get(question.name)
        shown = right if isinstance(right, str) else f"{right:.4g} {question.unit}".rstrip()
        because = filled(question.because, self.progress.numbers)
        ok = None if said is None else is_right(question, said, right)
        return Finding(ok, f"{shown}. {because}")

    def _claimed(self, claim: Claim) -> Finding:
        numbers = self.progress.numbers
        return Finding(
            bool(value_of(claim.holds, numbers)), filled(claim.text, numbers), claim.timed
        )


def open_session(lesson: Lesson, out: Path, *, again: bool = False) -> Session:
    """The reader's session of a lesson below the folder ``out``: where it was left, or a new one.

    The lesson's scripts are written anew; the reader's own files stay but with ``again``. Raises
    UsageError where the folder cannot be written, holds what is no progress, or, with ``again``,
    what no lesson left.
    """
    folder = out / f"{lesson.number:02}"
    if again:
        _remove(folder)
    run_folder.create(folder)
    for part in lesson.parts:
        if isinstance(part, File):
            write_file(folder / part.path, part.content)
        elif isinstance(part, Exercise) and not (folder / part.file).exists():
            write_file(folder / part.file, part.starter)
    session = Session(lesson, folder, progress_in(folder))
    session.keep()
    return session


def _remove(folder: Path) -> None:
    """Remove a lesson's folder; UsageError where it holds what no lesson left."""
    if folder.is_dir() and any(folder.iterdir()) and not (folder / _KEPT).exists():
        raise UsageError(
            f"{folder} is no lesson's folder, for it holds no {_KEPT}: remove it yourself, or "
            "choose another with --out"
        )
    shutil.rmtree(folder, ignore_errors=True)


def progress_in(folder: Path) -> Progress:
    """The progress that a lesson's folder keeps, or none yet; UsageError where it is not ours."""
    kept = folder / _KEPT
    if not kept.exists():
        return Progress()
    content = files.bounded_bytes(kept, "progress of a lesson", _MOST_BYTES)
    with files.reading(kept, "progress of a lesson", "begin it anew with --again"):
        return files.parsed_json(content, Progress)


def write_file(path: Path, content: str) -> None:
    """Write a script of a lesson, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_atomic(path, content.encode())
