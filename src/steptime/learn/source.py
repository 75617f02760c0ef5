"""Reading lessons: Markdown files whose fenced blocks are questions, commands and exercises.

A file is ``NN-name.md``. It begins with ``# Title``, and these blocks have a meaning; all others,
and all that stands between, is text:

- ``lesson``: TOML with ``question`` and ``minutes``;
- ``ask NAME``: TOML, the fields of ``Question``;
- ``run NAME``: one line, the command;
- ``claim``: TOML, the fields of ``Claim``; it stands right after a ``run`` or another claim;
- ``file PATH``: a script;
- ``exercise NAME``: TOML, the fields of ``Exercise`` but the two that come after it as blocks
  ``starter NAME`` and ``solution NAME``.
"""

import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from markdown_it import MarkdownIt

from steptime.errors import UsageError
from steptime.learn.lesson import Claim, Command, Exercise, File, Lesson, Part, Question, Text

_FOLDER = Path(__file__).parent / "lessons"
_MEANT = ("lesson", "ask", "run", "claim", "file", "exercise", "starter", "solution")
_T = TypeVar("_T")


@dataclass(frozen=True)
class _Block:
    """A piece of the source: a fenced block with its kind and name, or text of no kind."""

    kind: str
    name: str
    content: str


@cache
def all_lessons() -> tuple[Lesson, ...]:
    """Every shipped lesson, by number."""
    return tuple(read_lesson(path) for path in sorted(_FOLDER.glob("*.md")))


def find_lesson(number: int) -> Lesson:
    """The lesson of this number; UsageError where there is none."""
    found = {lesson.number: lesson for lesson in all_lessons()}
    if number not in found:
        raise UsageError(f"there is no lesson {number}: there are {min(found)} to {max(found)}")
    return found[number]


def read_lesson(path: Path) -> Lesson:
    """The lesson of a file; UsageError names the file and the block that cannot be read."""
    source = path.read_text(encoding="utf-8")
    try:
        return _lesson(int(path.name.partition("-")[0]), list(_blocks(source)))
    except (ValueError, KeyError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise UsageError(f"{path.name} is no lesson: {error}") from None


def _blocks(source: str) -> Iterator[_Block]:
    """The source in order: each fenced block that has a meaning, and the text between them."""
    lines, at = source.splitlines(keepends=True), 0
    for token in MarkdownIt().parse(source):
        kind, _, name = token.info.strip().partition(" ")
        if token.type == "fence" and kind in _MEANT and token.map:
            first, after = token.map
            yield _Block("", "", "".join(lines[at:first]).strip())
            yield _Block(kind, name.strip(), token.content)
            at = after
    yield _Block("", "", "".join(lines[at:]).strip())


def _lesson(number: int, blocks: list[_Block]) -> Lesson:
    title = blocks[0].content.removeprefix("# ").strip()
    heads = [tomllib.loads(block.content) for block in blocks if block.kind == "lesson"]
    if len(heads) != 1 or not heads[0].keys() >= {"question", "minutes"}:
        raise ValueError("it needs one block lesson, with a question and minutes")
    (head,) = heads
    parts: list[Part] = []
    for block in blocks[1:]:
        if block.kind == "claim":
            command = parts.pop() if parts else None
            if not isinstance(command, Command):
                raise ValueError(f"a claim stands after no command: {block.content.strip()}")
            claim = _made(Claim, tomllib.loads(block.content))
            parts.append(replace(command, claims=(*command.claims, claim)))
        elif block.kind in ("starter", "solution"):
            exercise = parts.pop() if parts else None
            if not (isinstance(exercise, Exercise) and exercise.name == block.name):
                raise ValueError(f"{block.kind} {block.name} stands after no exercise of that name")
            parts.append(
                replace(exercise, starter=block.content)
                if block.kind == "starter"
                else replace(exercise, solution=block.content)
            )
        elif block.kind in _READERS:
            parts.append(_READERS[block.kind](block))
        elif block.content and not block.kind:
            parts.append(Text(block.content))
    return Lesson(number, title, head["question"], head["minutes"], tuple(parts))


def _question(block: _Block) -> Question:
    return _made(Question, {"name": block.name, **tomllib.loads(block.content)})


def _command(block: _Block) -> Command:
    line = block.content.strip()
    if not line.startswith("steptime ") or "\n" in line:
        raise ValueError(f"run {block.name} must be one line that begins with steptime")
    return Command(block.name, line)


def _exercise(block: _Block) -> Exercise:
    empty = {"name": block.name, "starter": "", "solution": ""}
    return _made(Exercise, empty | tomllib.loads(block.content))


_READERS: Mapping[str, Callable[[_Block], Part]] = {
    "ask": _question,
    "run": _command,
    "file": lambda block: File(block.name, block.content),
    "exercise": _exercise,
}


def _made(kind: type[_T], values: Mapping[str, Any]) -> _T:
    """A dataclass of these values, each of its field's type; no other name is let through."""
    unknown = values.keys() - {field.name for field in fields(kind)}  # type: ignore[arg-type]
    if unknown:
        raise ValueError(f"a {kind.__name__.lower()} has no {', '.join(sorted(unknown))}")
    return msgspec.convert(dict(values), kind)
