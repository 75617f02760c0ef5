"""Whether steptime check names the faults of examples/broken, and is silent about what is right.

    python benchmarks/gallery.py [--runs 1] [--only 07,16] [--of faults] [--backend gloo]
        [--forked] [--page docs/gallery.md]

Every script there says in its comments with how many ranks it runs and what is to be found: the
kind, the line of each rank, the ranks to blame. A run is right when one finding is of that kind,
blames these ranks and no other, and has that line of every rank, or one of several that are said
to serve; findings besides it are counted. The twins, and the scripts of examples/good, are to give
no finding and to end with exit code 0. ``seconds`` are those from the last call that a rank issued,
where the hang begins, to the verdict (run.json): the longest of the runs. One script runs at a
time. The exit code is 1 unless all runs are right. ``--of`` takes the faults alone, or what is
right; ``--forked`` forks every rank from a Python that has imported torch, as the tests do, which
saves most of the time of many runs; ``--page`` writes the table of that page anew.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from steptime.errors import UsageError
from steptime.record.read import read_logs

EXAMPLES = Path(__file__).parents[1] / "examples"
HANGS = ("deadlock", "mismatch", "missing", "died")
LIMIT_S = 5.0
_GIVE_UP_S = 600.0
_PLACE = re.compile(r"line (\d+(?: or \d+)*) on ranks? (\d+(?:,\d+)*)")


@dataclass(frozen=True, eq=False)
class Expected:
    """What the comments of a script ask for; ``kinds`` is empty where nothing may be found.

    ``lines``: those of each rank of which one must be named. ``story``: its first comment.
    """

    file: Path
    ranks: int
    kinds: Sequence[str]
    lines: Mapping[int, frozenset[int]]
    blamed: frozenset[int]
    story: str

    @property
    def hangs(self) -> bool:
        return bool(set(self.kinds) & set(HANGS))


@dataclass(frozen=True)
class Verdict:
    """What check said of one run; ``seconds`` is None where no rank called anything."""

    findings: Sequence[Mapping[str, Any]]
    exit_code: int | None
    seconds: float | None
    output: str


def expected(file: Path) -> Expected:
    """Read the comments at the top of a script."""
    lines = file.read_text(encoding="utf-8").splitlines()
    top = [line.removeprefix("# ") for line in lines[: lines.index("")]]
    said = {word: line for line in top for word in ("run", "finds") if line.startswith(f"{word}:")}
    ranks = re.search(r"--nproc-per-node (\d+)", said["run"])
    assert ranks, f"{file} does not say with how many ranks it runs"
    kinds, _, where = said["finds"].removeprefix("finds: ").partition(" at ")
    places, _, blamed = where.partition("; ranks ")
    return Expected(
        file=file,
        ranks=int(ranks[1]),
        kinds=() if kinds == "nothing" else kinds.split("|"),
        lines={
            int(rank): frozenset(int(line) for line in numbers.split(" or "))
            for numbers, of in _PLACE.findall(places)
            for rank in of.split(",")
        },
        blamed=frozenset(int(rank) for rank in blamed.split(",") if rank),
        story=" ".join(line for line in top if line not in said.values()),
    )


def check(script: Expected, backend: str, folder: Path) -> Verdict:
    """One run of a script under check."""
    out, words = asked_of(script, folder)
    # torchrun's children are the verb's to end, so it gets a group of its own to be ended in.
    with subprocess.Popen(
        [sys.executable, "-m", "steptime", *words],
        env={**os.environ, "BACKEND": backend},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=_GIVE_UP_S)
        except subprocess.TimeoutExpired:
            process.terminate()
            output, _ = process.communicate()
            return Verdict([], None, None, output)
    found = _object(output)
    return Verdict(seen(found), process.returncode, _seconds(out), output)


def check_forked(script: Expected, backend: str, folder: Path) -> Verdict:
    """The same with forked ranks."""
    from forked import forked  # that of the tests

    out, words = asked_of(script, folder)
    done = forked(*words, folder=folder, environ={"BACKEND": backend})
    found = _object(done.out)
    return Verdict(seen(found), done.code, _seconds(out), done.out + done.err)


def asked_of(script: Expected, folder: Path) -> tuple[Path, list[str]]:
    """The folder of the run, and the words of the command."""
    out = folder / "run"
    words = ["check", "--ranks", str(script.ranks), "--json", "--out", str(out), str(script.file)]
    return out, words


def seen(told: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What check's JSON tells: findings, and remarks, of which right scripts are to have none."""
    return [*told.get("findings", ()), *told.get("remarks", ())]


def _object(output: str) -> dict[str, Any]:
    """The last line that is a JSON object."""
    for line in reversed(output.splitlines()):
        if line.startswith("{"):
            found: dict[str, Any] = json.loads(line)
            return found
    return {}


def _seconds(out: Path) -> float | None:
    """From the last call that any rank issued to the verdict."""
    try:
        logs = [log for log in read_logs(out) if len(log.calls)]
        verdict_ns = (out / "run.json").stat().st_mtime_ns
    except (UsageError, FileNotFoundError):
        return None
    issued = [log.wall_ns + int(log.calls["issued"].max()) - log.clock_ns for log in logs]
    return (verdict_ns - max(issued)) / 1e9 if issued else None


def miss(script: Expected, verdict: Verdict) -> str:
    """What is wrong with a verdict; nothing where it is right."""
    if verdict.exit_code is None:
        return f"no verdict within {_GIVE_UP_S:.0f} s"
    if not script.kinds:
        if verdict.findings:
            return "; ".join(f"noise: {told(finding)}" for finding in verdict.findings)
        return "" if verdict.exit_code == 0 else f"exit code {verdict.exit_code}"
    misses = [_differs(script, finding) for finding in verdict.findings]
    if not misses:
        return "nothing found"
    return "" if "" in misses else "; ".join(misses)


def _differs(script: Expected, finding: Mapping[str, Any]) -> str:
    """How a finding differs from what is expected."""
    if finding["kind"] not in script.kinds:
        return f"not a {'|'.join(script.kinds)}: {told(finding)}"
    if set(finding["ranks"]) != script.blamed:
        return f"blames {finding['ranks']}, not {sorted(script.blamed)}"
    named = {
        (place["rank"], place["line"])
        for place in finding["places"]
        if Path(place["file"]).name == script.file.name
    }
    for rank, lines in script.lines.items():
        if not any((rank, line) in named for line in lines):
            return f"does not name line {min(lines)} on rank {rank}: {told(finding)}"
    return ""


def extra(script: Expected, verdict: Verdict) -> list[Mapping[str, Any]]:
    """What is found besides the fault."""
    if miss(script, verdict) or not script.kinds:
        return []
    right = next(one for one in verdict.findings if not _differs(script, one))
    return [one for one in verdict.findings if one is not right]


def told(finding: Mapping[str, Any]) -> str:
    """A finding in a line."""
    places = ", ".join(f"{place['line']} on {place['rank']}" for place in finding["places"])
    return f"{finding['kind']} at {places}, ranks {finding['ranks']}: {finding['what']}"


def judge(script: Expected, runs: int, run: Callable[[Path], Verdict]) -> list[Verdict]:
    """Run a script so many times, and print its row."""
    verdicts = []
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as folder:
            verdicts.append(run(Path(folder)))
    misses = [one for verdict in verdicts if (one := miss(script, verdict))]
    seconds = [verdict.seconds for verdict in verdicts if verdict.seconds is not None]
    longest = f"{max(seconds):7.1f}" if script.hangs and seconds else f"{'':7}"
    besides = [one for verdict in verdicts for one in extra(script, verdict)]
    kinds = "|".join(script.kinds) or "nothing"
    print(
        f"{script.file.stem:34} {kinds:20} {runs - len(misses):3} of {runs:<3} {longest} "
        f"{len(besides):7}",
        flush=True,
    )
    for one in dict.fromkeys([*misses, *(f"besides: {told(finding)}" for finding in besides)]):
        print(f"    {one}", flush=True)
    if any(not verdict.findings and script.kinds for verdict in verdicts):
        print("    output:", *verdicts[0].output.splitlines()[-3:], sep="\n      ", flush=True)
    return verdicts


def row(script: Expected, verdict: Verdict) -> str:
    """A row of the page."""
    number, _, name = script.file.stem.partition("-")
    right = [finding for finding in verdict.findings if not _differs(script, finding)]
    says = f"**{right[0]['kind']}**: {right[0]['what']}" if right else "not named rightly"
    link = f"[{name}](../examples/broken/{script.file.name})"
    return f"| {number} | {link} | {script.story} | {says} |"


def write_page(page: Path, rows: Sequence[str]) -> None:
    """Put rows in place of those of the page."""
    before, rule, behind = page.read_text(encoding="utf-8").partition("|--|--|--|--|\n")
    _, blank, after = behind.partition("\n\n")
    page.write_text(before + rule + "\n".join(rows) + blank + after, encoding="utf-8")


def scripts(only: Sequence[str], of: str) -> list[Expected]:
    """The scripts of the gallery in order, each with its twin behind it; of one sort, or all."""
    broken = sorted((EXAMPLES / "broken").glob("*.py"), key=_number_and_name)
    good = sorted((EXAMPLES / "good").glob("*.py"))
    chosen = [file for file in [*broken, *good] if not only or file.stem.startswith(tuple(only))]
    found = [expected(file) for file in chosen]
    return [one for one in found if of == "all" or (of == "faults") == bool(one.kinds)]


def _number_and_name(file: Path) -> tuple[int, str]:
    number, _, name = file.stem.partition("-")
    return int(number), name


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--of", default="all", choices=("all", "faults", "right"))
    parser.add_argument("--backend", default="gloo", choices=("gloo", "cpu:gloo", "steptime"))
    parser.add_argument("--forked", action="store_true")
    parser.add_argument("--page", type=Path)
    given = parser.parse_args()
    if given.forked:
        sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    checked = check_forked if given.forked else check
    right = {True: 0, False: 0}
    of = {True: 0, False: 0}
    slow, rows = [], []
    print(f"{'script':34} {'to be found':20} {'right':10} seconds besides")
    only = [one for one in given.only.split(",") if one]
    for script in scripts(only, given.of):
        verdicts = judge(script, given.runs, partial(checked, script, given.backend))
        faulty = bool(script.kinds)
        of[faulty] += len(verdicts)
        right[faulty] += sum(not miss(script, verdict) for verdict in verdicts)
        slow += [one.seconds for one in verdicts if script.hangs and (one.seconds or 0) > LIMIT_S]
        rows += [row(script, verdicts[0])] if faulty else []
    print(
        f"faults named rightly in {right[True]} of {of[True]} runs, right scripts without a "
        f"finding in {right[False]} of {of[False]}; {len(slow)} verdicts later than {LIMIT_S:g} s"
    )
    if given.page:
        write_page(given.page, rows)
    return 0 if right == of else 1


if __name__ == "__main__":
    sys.exit(main())
