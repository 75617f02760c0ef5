"""Run again what the pages show, where every machine prints the same, and put it in its place.

    python docs/renew.py [PAGE …]

That is what is simulated, computed or proved: the blocks of README.md and docs/**.md with one
command of ``steptime`` that starts no ranks, and what it printed. tests/test_documents.py holds the
pages to it. A line of … stands for lines that are left out; such a block is compared, and mended by
hand. docs/results, which holds measurements, has benchmarks/results.py.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
APART = {  # with tests, or a script, of their own
    DOCS / "collectives.md",
    DOCS / "models.md",
    *(DOCS / "lessons").glob("*.md"),
    *(DOCS / "results").glob("*.md"),
}
BLOCK = re.compile(r"^```console\n\$ ((?:.*\\\n)*.*)\n((?:(?!```|\$ ).*\n)+)```", re.M)
SAME = re.compile(
    r"steptime (?:(?:cluster|verify|show|simulate|plan) |scale .*--cluster |topo --file "
    r"|proxy (?:list|describe|.*--(?:dry-run|cluster))|learn$)",
    re.S,
)
SHORT = re.compile(r"steptime (?:cluster|show|topo|proxy|learn)")
TIMED = re.compile(r"\bin [\d.,]+ (?:s|ms) on this computer")
LEFT_OUT = "…"


@dataclass(frozen=True)
class Block:
    """A command that a page shows, with the lines that it printed."""

    page: Path
    command: str
    lines: tuple[str, ...]

    @property
    def takes_long(self) -> bool:
        """Whether it simulates a step."""
        simulated = self.command.startswith("steptime proxy") and "--cluster" in self.command
        return simulated or not SHORT.match(self.command)


def blocks(page: Path) -> list[Block]:
    """What a page shows that is the same on every machine."""
    found = BLOCK.findall(page.read_text()) if page not in APART else []
    return [
        Block(page, command, tuple(lines.splitlines()))
        for command, lines in found
        if SAME.match(command) and "--live" not in command
    ]


def printed(command: str, folder: Path) -> list[str]:
    """The lines that a command prints, run in a folder of its own, in 80 columns.

    One that prints nothing ends it all: a block without lines would no longer be found.
    """
    (folder / "tests").symlink_to(ROOT / "tests")
    for name, text in _files():
        (folder / name).write_text(text)
    program, *words = shlex.split(command.replace("\\\n", " "))
    done = subprocess.run(
        [Path(sys.executable).parent / program, *words],
        cwd=folder,
        env=os.environ | {"COLUMNS": "80"},
        capture_output=True,
        text=True,
        timeout=1000,
        check=True,
    )
    lines = [line.rstrip() for line in done.stdout.strip("\n").splitlines()]
    if not any(lines):
        sys.exit(f"{command!r} printed nothing: its block stays as it is; run it by hand")
    return lines


def _files() -> Iterator[tuple[str, str]]:
    """The files that pages show by ``cat``."""
    for page in PAGES:
        yield from re.findall(
            r"^```console\n\$ cat (\S+)\n((?:(?!```).*\n)+)```", page.read_text(), re.M
        )


def agree(shown: Sequence[str], lines: Sequence[str]) -> bool:
    """Whether a page shows these lines, word by word; how long they took may differ."""
    whole, place = _words(lines), 0
    pieces = [_words(piece.splitlines()) for piece in _pieces(shown)]
    for piece in pieces:
        place = whole.find(piece, place)
        if place < 0:
            return False
        place += len(piece)
    return len(pieces) > 1 or pieces[0] == whole


def _pieces(shown: Sequence[str]) -> list[str]:
    """What stands before, between and after the lines of …, of which a page shows nothing."""
    return re.split(rf"^{LEFT_OUT}$", "\n".join(shown), flags=re.M)


def _words(lines: Sequence[str]) -> str:
    return TIMED.sub("", " ".join(" ".join(lines).split()))


def renew(page: Path) -> int:
    """Put what the commands of a page print now in its place; returns how many need a hand."""
    by_hand = 0
    for block in blocks(page):
        with tempfile.TemporaryDirectory() as folder:
            lines = printed(block.command, Path(folder))
        if agree(block.lines, lines):
            continue
        if LEFT_OUT in block.lines:
            by_hand += 1
            print(f"{page.name}: mend by hand what {block.command!r} shows:", *lines, sep="\n")
            continue
        old, new = ("\n".join((f"$ {block.command}", *of)) for of in (block.lines, lines))
        page.write_text(page.read_text().replace(f"{old}\n```", f"{new}\n```"))
        print(f"{page.name}: renewed {block.command!r}")
    return by_hand


if __name__ == "__main__":
    chosen = [Path(name).resolve() for name in sys.argv[1:]] or PAGES
    sys.exit(sum(map(renew, chosen)) > 0)
