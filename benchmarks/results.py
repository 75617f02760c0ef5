"""Measure again what docs/results.md shows: the page is its own template.

    python benchmarks/results.py [--only WORD] [--list]

Every block of the page that begins with a prompt is run again in the repository's root, and its
output replaced with what the command printed; the line below the block, which says when, where and
on which revision it was measured, is renewed. ``--only`` takes the blocks whose command or heading
contains the word, without regard to case. A command that fails leaves its block as it was, and the
exit code is 1. Nothing else should run meanwhile. Some commands need a peer: SimGrid
(libsimgrid-dev), Open MPI (a wheel); they say so themselves.
"""

import argparse
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from steptime.runs.run_folder import environment

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "results.md"
BLOCK = re.compile(
    r"^```console\n\$ (?P<command>.+)\n(?P<shown>(?:.*\n)*?)```\n\n_(?P<stamp>.+)_$", re.M
)


@dataclass(frozen=True)
class Block:
    """A command of the page, the heading above it, and where in the text it stands."""

    command: str
    heading: str
    start: int
    end: int


def blocks(text: str) -> list[Block]:
    return [
        Block(
            command=found["command"],
            heading=re.findall(r"^## (.+)$", text[: found.start()], re.M)[-1],
            start=found.start(),
            end=found.end(),
        )
        for found in BLOCK.finditer(text)
    ]


def printed(command: str) -> str | None:
    """What a command prints in a terminal of 80 columns; None where it fails."""
    tools = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=ROOT,
        env=os.environ | {"PATH": tools, "COLUMNS": "80"},
        stdout=subprocess.PIPE,
        text=True,
    )
    if done.returncode:
        return None
    return "".join(f"{line.rstrip()}\n" for line in done.stdout.strip("\n").splitlines())


def revision() -> str:
    """The commit, marked where anything but the page under renewal departs from it."""
    git = ["git", "-C", str(ROOT)]
    commit = subprocess.check_output([*git, "rev-parse", "--short=12", "HEAD"], text=True).strip()
    besides = subprocess.run(
        [*git, "diff", "--quiet", "HEAD", "--", ".", f":!{PAGE.relative_to(ROOT)}"]
    )
    return f"{commit}{'-dirty' * (besides.returncode != 0)}"


def stamp() -> str:
    here = environment()
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, {here['cores']} cores of {here['cpu']}, {memory:.0f} GiB, "
        f"revision {revision()}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", default="", metavar="WORD")
    parser.add_argument("--list", action="store_true")
    asked = parser.parse_args()
    commands = [
        block.command
        for block in blocks(PAGE.read_text())
        if asked.only.lower() in f"{block.heading} {block.command}".lower()
    ]
    failed = 0
    for command in commands:
        print(f"$ {command}", flush=True)
        if asked.list:
            continue
        start = time.perf_counter()
        shown = printed(command)
        print(f"  {time.perf_counter() - start:.0f} s{' and it FAILED' * (shown is None)}")
        if shown is None:
            failed += 1
            continue
        text = PAGE.read_text()  # anew, for the page may have been edited meanwhile
        block = next(one for one in blocks(text) if one.command == command)
        renewed = f"```console\n$ {command}\n{shown}```\n\n_{stamp()}_"
        PAGE.write_text(text[: block.start] + renewed + text[block.end :])
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
