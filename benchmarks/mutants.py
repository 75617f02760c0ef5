"""Which faults the tests let live: small ones, put into the code one after the other.

    python benchmarks/mutants.py FOLDER [--count 700] [--seed 1] [--limit N]
    python benchmarks/mutants.py FOLDER --again     # the survivors once more, with today's tests

FOLDER gets a copy of the sources and of the tests. Once, coverage.py measures which test comes by
which line. Then a random sample of all faults (see mutation.py) in functions of PACKAGES is put
into the copy, one at a time, and the tests run that come by there: those of the mirrored folder
first, and of them the quickest, up to TESTS_S in all; the first that fails has killed the fault.
Where none in this process comes by (ranks, commands) all tests of the mirrored folder run.

A fault takes little more than its tests: this process imports everything once, collects all tests,
and forks for each fault; there the code of the one function is exchanged, wherever it is referred
to. The file is changed as well, for what a test starts. What has no such function is judged in a
new process. A verdict is one line of FOLDER/verdicts.jsonl, so that a call which is ended goes on
where it was. Neither mutmut nor cosmic-ray serves: the one puts trampolines into the code, and the
other starts a Python anew for each fault. What is in C has no faults here.
"""

import argparse
import ctypes
import gc
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Self

import coverage
import pytest
from mutation import Mutant, applied, mutants

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("simulate", "timeline", "collectives", "program", "workloads", "backend/host")
TESTS = (*PACKAGES, "study")
PYTEST = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not slow")
TESTS_S = 3.0
"""Processor seconds that the tests of one fault may take together, as they took when measured."""
SLACK_S = 15.0
"""Processor seconds, beside four times what its tests took, after which a fault is a hang."""
SILENCE_S, IDLE_S = 60.0, 0.05
"""A process that says nothing for so long, and computes for less, hangs."""
MOST_BYTES = 6 << 30
ALIVE = "survived"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=700)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=int, help="stop after so many verdicts")
    parser.add_argument("--again", action="store_true")
    asked = parser.parse_args()
    folder = asked.folder.resolve()
    first, again = folder / "verdicts.jsonl", folder / "again.jsonl"
    if asked.again:
        shutil.rmtree(folder / "copy/tests", ignore_errors=True)
        (folder / "examination.json").unlink(missing_ok=True)
    copy_of_repository(folder / "copy")
    chosen = sample(folder / "copy", asked.count, asked.seed)
    if asked.again:
        alive = {key(row) for row in read(first) if row["verdict"] == ALIVE}
        chosen = [one for one in chosen if key(asdict(one)) in alive]
    verdicts = again if asked.again else first
    done = {key(row) for row in read(verdicts)}
    left = [one for one in chosen if key(asdict(one)) not in done][: asked.limit]
    prepare(folder)
    folders = [f"tests/{name}" for name in TESTS]
    pytest.main([*PYTEST, "--hypothesis-seed=0", *folders], [Judge(folder, left, verdicts)])
    print("\n".join(table(list(read(first)), list(read(again)))))
    return 0


def copy_of_repository(copy: Path) -> None:
    """Sources and tests, whichever the copy does not have yet."""
    copy.mkdir(parents=True, exist_ok=True)
    for name in ("src", "tests", "benchmarks", "examples", "docs", "pyproject.toml", "README.md"):
        if (ROOT / name).is_file():
            shutil.copy2(ROOT / name, copy)
        elif not (copy / name).exists():
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("*.nb?"))


def prepare(folder: Path) -> None:
    """Make this a process in which the tests of the copy can run."""
    copy = folder / "copy"
    paths = [str(copy / name) for name in ("src", "tests")]
    os.chdir(copy)
    sys.path[:1] = paths
    os.environ |= {
        "PYTHONPATH": os.pathsep.join(paths),
        "HYPOTHESIS_STORAGE_DIRECTORY": str(folder / "hypothesis"),
        "OMP_NUM_THREADS": "1",
    }
    sys.modules["__main__"] = ModuleType("__main__")  # else ranks that tests start would import it
    ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER: orphans of tests are ours to end


def sample(copy: Path, count: int, seed: int) -> list[Mutant]:
    """Faults drawn from all of the packages, in random order but for those that take long."""
    found, texts = list[Mutant](), {}
    for package in PACKAGES:
        for path in sorted((copy / "src/steptime" / package).rglob("*.py")):
            file = str(path.relative_to(copy))
            texts[file] = path.read_text(encoding="utf-8")
            found += mutants(file, texts[file])
    random.Random(seed).shuffle(found)  # noqa: S311
    print(f"{count} of {len(found)} faults, seed {seed}", flush=True)
    chosen = [one for one in found if code_of(one, texts[one.file])][:count]
    return sorted(chosen, key=lambda one: "backend" in one.file)


def code_of(mutant: Mutant, source: str) -> CodeType | None:
    """The code of the file with the fault, None where that is no Python or no change."""
    changed = applied(mutant, source)
    try:
        return (
            compile(changed, str(Path.cwd() / mutant.file), "exec") if changed != source else None
        )
    except SyntaxError:
        return None


@dataclass(frozen=True)
class Examination:
    """Which tests come by each line of each file, and what each test takes, in seconds."""

    reached: Mapping[str, Mapping[str, Sequence[str]]]
    seconds: Mapping[str, float]
    file_of: Mapping[str, str]

    def tests(self, mutant: Mutant) -> list[str]:
        """The tests for a fault, the nearest first and of them the quickest."""
        lines = self.reached.get(mutant.file, {})
        at = map(str, range(mutant.line, mutant.last + 1))
        near = {t for t, file in self.file_of.items() if is_near(mutant.file, file)}
        found = {test for line in at for test in lines.get(line, ()) if test in self.seconds}
        taken, chosen = 0.0, list[str]()
        for test in sorted(found or near, key=lambda t: (t not in near, self.seconds[t])):
            taken += self.seconds[test]
            if chosen and taken > TESTS_S:
                break
            chosen.append(test)
        return chosen


def is_near(file: str, test: str) -> bool:
    """Whether a test lies in the folder that mirrors a file's, the nearest there is, or within."""
    folder = Path("tests", *Path(file).parts[2:-1])
    while not (ROOT / folder).is_dir():
        folder = folder.parent
    return Path(test).is_relative_to(folder)


def name_of(item: Any) -> str:
    """A test by its module and function, whatever its parameters."""
    return f"{item.module.__name__}.{item.originalname}"


class Judge:
    """In the place of pytest's loop over all tests: judges faults, each in a forked process."""

    def __init__(self, folder: Path, left: Sequence[Mutant], verdicts: Path) -> None:
        self.folder = folder
        self.left = left
        self.verdicts = verdicts

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            raise session.Failed("a file of tests cannot be collected: mend it, or what is copied")
        items: dict[str, list[Any]] = defaultdict(list)
        for item in session.items:
            items[name_of(item)].append(item)
        told = json.loads(self.examined(session).read_text(encoding="utf-8"))
        examination = Examination(**told)
        functions = functions_by_place()
        gc.freeze()
        for number, one in enumerate(self.left, 1):
            tests = [test for test in examination.tests(one) if test in items]
            seconds = sum(examination.seconds[test] for test in tests)
            with Fault(one) as fault:
                began = time.monotonic()
                changes = exchanges(fault, functions)
                if changes is None:
                    files = sorted({examination.file_of[test] for test in tests})
                    verdict, test = judged_anew(self.folder, files, tests, seconds)
                else:
                    wanted = [item for test in tests for item in items[test]]
                    verdict, test = judged_here(self.folder, changes, wanted, seconds)
            took = round(time.monotonic() - began, 2)
            row = {**asdict(one), "was": fault.was, "verdict": verdict, "test": test}
            with self.verdicts.open("a", encoding="utf-8") as out:
                out.write(json.dumps({**row, "tests": len(tests), "seconds": took}) + "\n")
            print(f"\n{number}/{len(self.left)} {one.file}:{one.line} {verdict}", flush=True)
        return True

    def examined(self, session: pytest.Session) -> Path:
        """The file with the Examination, measured where there is none yet."""
        kept = self.folder / "examination.json"
        if not kept.exists():
            if not os.fork():
                cover(self.folder, session, kept)
            os.wait()
            end_children()
        return kept


def cover(folder: Path, session: pytest.Session, kept: Path) -> None:
    """In a forked process: run all tests and write down what each that passes comes by."""
    alone(folder, folder / "examined.log")
    measured = coverage.Coverage(data_file=None, source=["src/steptime"], config_file=False)
    measured.start()
    watch = Watch(session)
    seconds: dict[str, float] = defaultdict(float)
    for item, following in zip(session.items, [*session.items[1:], None], strict=True):
        measured.switch_context(name_of(item))
        began = os.times()
        session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        seconds[name_of(item)] += sum(os.times()[:4]) - sum(began[:4])
    measured.stop()
    data, here = measured.get_data(), Path.cwd()
    passed = {test: took for test, took in seconds.items() if test not in watch.failed}
    reached = {
        str(Path(file).relative_to(here)): data.contexts_by_lineno(file)
        for file in data.measured_files()
    }
    file_of = {name_of(item): str(item.path.relative_to(here)) for item in session.items}
    told = {"reached": reached, "seconds": passed, "file_of": {t: file_of[t] for t in passed}}
    kept.write_text(json.dumps(told), encoding="utf-8")
    os._exit(0)


class Watch:
    """Hears which tests fail; ``pipe``: is told the first, and then this process ends."""

    def __init__(self, session: pytest.Session, pipe: Connection | None = None) -> None:
        self.failed: set[str] = set()
        self.pipe = pipe
        session.config.pluginmanager.register(self)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            file, _, test = report.nodeid.partition("::")
            self.failed.add(f"{Path(file).stem}.{test.split('[')[0]}")
            self.tell("killed", report.nodeid.removeprefix("tests/"))

    def tell(self, verdict: str, test: str) -> None:
        """Tell the verdict, and end."""
        if self.pipe is not None:
            self.pipe.send((verdict, test))
            os._exit(0)


class Fault:
    """A file with a fault in it, until it leaves the context."""

    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant
        self.path = Path.cwd() / mutant.file
        self.source = self.path.read_text(encoding="utf-8")
        self.was = self.source.encode()[mutant.start : mutant.end].decode()
        self.stat = self.path.stat()

    def __enter__(self) -> Self:
        self.path.write_text(applied(self.mutant, self.source), encoding="utf-8")
        self._forget_compiled()
        return self

    def __exit__(self, *_: object) -> None:
        self.path.write_text(self.source, encoding="utf-8")
        times = self.stat.st_atime_ns, self.stat.st_mtime_ns
        os.utime(self.path, ns=times)  # by which Python knows whether what it keeps is fresh
        self._forget_compiled()

    def _forget_compiled(self) -> None:
        for kept in (self.path.parent / "__pycache__").glob(f"{self.path.stem}.*.pyc"):
            kept.unlink()


Place = tuple[str, str, int]
"""Where a function is: its file, its qualified name and its first line."""


def place_of(code: CodeType) -> Place:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def functions_by_place() -> Mapping[Place, Sequence[FunctionType]]:
    """All functions that there are, whoever refers to them."""
    found: dict[Place, list[FunctionType]] = defaultdict(list)
    for one in gc.get_objects():
        if type(one) is FunctionType:  # isinstance asks a proxy for its class, which may warn
            found[place_of(one.__code__)].append(one)
    return found


def exchanges(
    fault: Fault, functions: Mapping[Place, Sequence[FunctionType]]
) -> list[tuple[FunctionType, CodeType]] | None:
    """The functions that have the fault, each with its new code; None where there is none."""
    code = code_of(fault.mutant, fault.source)
    assert code is not None
    old = {place_of(one): one for one in codes(compile(fault.source, str(fault.path), "exec"))}
    found = [
        (function, new)
        for new in codes(code)
        if old.get(place_of(new)) != new
        for function in functions.get(place_of(new), ())
        if len(function.__code__.co_freevars) == len(new.co_freevars)
    ]
    return found or None


def codes(code: CodeType) -> Iterator[CodeType]:
    """The code of all functions of a module, also of those within classes and functions."""
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield one
            yield from codes(one)


def judged_here(
    folder: Path,
    changes: Sequence[tuple[FunctionType, CodeType]],
    items: Sequence[Any],
    seconds: float,
) -> tuple[str, str]:
    """The verdict of tests on changed functions, in a process forked from this one."""
    mine, theirs = Pipe(duplex=False)
    child = os.fork()
    if not child:
        alone(folder, folder / "judged.log")
        most = int(SLACK_S + 4 * seconds)
        resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))
        resource.setrlimit(resource.RLIMIT_CPU, (most, most + 5))
        for function, code in changes:
            function.__code__ = code
        watch = Watch(items[0].session, theirs)
        signal.signal(signal.SIGXCPU, lambda *_: watch.tell("timeout", ""))
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        watch.tell(ALIVE, "")
    theirs.close()
    verdict = heard(mine, child)
    end_children()
    shutil.rmtree(folder / "own", ignore_errors=True)
    return verdict


def heard(pipe: Connection, child: int) -> tuple[str, str]:
    """What the process says of its tests; an end without a word is a death.

    A hang is that neither it nor what it has started computes: tests may take long where the
    machine is busy, and what computes for ever is ended by its limit.
    """
    used = -1.0
    while not pipe.poll(SILENCE_S):
        before, used = used, processor_seconds(child)
        if used - before < IDLE_S:
            return "timeout", ""
    try:
        verdict, test = pipe.recv()
    except EOFError:
        return "killed", "the process died"
    return verdict, test


def processor_seconds(session: int) -> float:
    """What the processes of a session have computed so far."""
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = path.read_text(encoding="utf-8").rpartition(")")[2].split()
            ticks += (int(fields[11]) + int(fields[12])) * (int(fields[3]) == session)
    return ticks / os.sysconf("SC_CLK_TCK")


def judged_anew(
    folder: Path, files: Sequence[str], tests: Sequence[str], seconds: float
) -> tuple[str, str]:
    """The verdict of tests on the changed file, in a new process."""
    own = folder / "own"
    own.mkdir(exist_ok=True)
    names = " or ".join(test.partition(".")[2] for test in tests)
    words = [sys.executable, "-m", "pytest", *PYTEST, "-x", "--hypothesis-seed=0", "-rf"]
    there = {**os.environ, "TMPDIR": str(own)}
    try:
        done = subprocess.run(
            [*words, "-k", names, *files], env=there, capture_output=True, text=True, check=False,
            timeout=4 * SLACK_S + 20 * seconds,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "timeout", ""
    finally:
        end_children()
        shutil.rmtree(own, ignore_errors=True)
    failed = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("FAILED ")]
    return ("killed", (failed or ["collecting"])[0]) if done.returncode else (ALIVE, "")


def alone(folder: Path, log: Path) -> None:
    """In a forked process: be nobody's, with temporary files of its own, and say nothing."""
    own = folder / "own"
    own.mkdir(exist_ok=True)
    os.setsid()
    os.environ["TMPDIR"] = os.environ["PYTEST_DEBUG_TEMPROOT"] = tempfile.tempdir = str(own)
    silence = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(silence, 1)
    os.dup2(silence, 2)


def end_children() -> None:
    """End all processes that a forked one has started: ours when their parents have ended."""
    while True:
        told = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii")
        for number in map(int, told.split()):
            os.kill(number, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("file", "start", "end", "text"))


def read(path: Path) -> Iterator[dict[str, Any]]:
    if path.exists():
        yield from map(json.loads, path.read_text(encoding="utf-8").splitlines())


def table(rows: Sequence[Mapping[str, Any]], again: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """How many faults of each package the tests see, and how many with those judged again."""
    later = {key(row): row["verdict"] for row in again}
    yield f"{'package':<14}{'faults':>8}{'killed':>8}{'hang':>6}{'alive':>7}{'seen':>8}" + (
        f"{'seen again':>12}" if later else ""
    )
    for package in (*PACKAGES, "all"):
        own = [row for row in rows if package == "all" or f"steptime/{package}/" in row["file"]]
        if own:
            counts = Counter(row["verdict"] for row in own)
            still = sum(later.get(key(row), row["verdict"]) == ALIVE for row in own)
            yield (
                f"{package:<14}{len(own):>8}{counts['killed']:>8}{counts['timeout']:>6}"
                f"{counts[ALIVE]:>7}{1 - counts[ALIVE] / len(own):>8.1%}"
                + (f"{1 - still / len(own):>12.1%}" if later else "")
            )


if __name__ == "__main__":
    sys.exit(main())
