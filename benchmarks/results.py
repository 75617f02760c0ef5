"""Measure again what the pages of docs/results show: each page is its own template.

    python benchmarks/results.py [--only WORD] [--list]

Every block of a page that begins with a prompt is run again in the repository's root, and its
output replaced with what the command printed; the line below the block, which says when, where and
on which revision it was measured, is renewed. ``--only`` takes the blocks whose page, heading or
command contains the word, without regard to case. A command that fails leaves its block as it was,
and the exit code is 1. Nothing else should run meanwhile. Some commands need a peer: SimGrid
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
PAGES = ROOT / "docs" / "results"
BLOCK = re.compile(
    r"^```console\n\$ (?P<command>.+)\n(?P<shown>(?:.*\n)*?)```\n\n_(?P<stamp>.+)_$", re.M
)


@dataclass(frozen=True)
class Block:
    """A command of a page, the heading above it, and where in the text it stands."""

    page: Path
    command: str
    heading: str
    start: int
    end: int


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    return [
        Block(
            page=page,
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
    """The commit, marked where anything but the pages under renewal departs from it."""
    git = ["git", "-C", str(ROOT)]
    commit = subprocess.check_output([*git, "rev-parse", "--short=12", "HEAD"], text=True).strip()
    besides = subprocess.run(
        [*git, "diff", "--quiet", "HEAD", "--", ".", f":!{PAGES.relative_to(ROOT)}"]
    )
    return f"{commit}{'-dirty' * (besides.returncode != 0)}"


def stamp() -> str:
    here = environment()
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, {here['cores']} cores of {here['cpu']}, {memory:.0f} GiB, "
        f"revision {revision()}"
    )


def renew(one: Block, shown: str) -> None:
    """Put what a command printed in its place, which may have moved while it ran."""
    block = next(found for found in blocks(one.page) if found.command == one.command)
    renewed = f"```console\n$ {one.command}\n{shown}```\n\n_{stamp()}_"
    text = one.page.read_text()
    one.page.write_text(text[: block.start] + renewed + text[block.end :])


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", default="", metavar="WORD")
    parser.add_argument("--list", action="store_true")
    asked = parser.parse_args()
    chosen = [
        block
        for page in sorted(PAGES.glob("*.md"))
        for block in blocks(page)
        if asked.only.lower() in f"{page.stem} {block.heading} {block.command}".lower()
    ]
    failed = 0
    for one in chosen:
        print(f"$ {one.command}", flush=True)
        if asked.list:
            continue
        start = time.perf_counter()
        shown = printed(one.command)
        print(f"  {time.perf_counter() - start:.0f} s{' and it FAILED' * (shown is None)}")
        if shown is None:
            failed += 1
            continue
        renew(one, shown)
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
