"""What holds for every test: how the session is set up, and that it leaves nothing behind."""

import gc
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.util import Finalize
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from steptime.host_memory import available_bytes

SESSION = "STEPTIME_TEST_SESSION"
"""The variable that names the session's folder of temporary files; all its processes have it."""
TESTS = Path(__file__).parent
NAMESPACES = ["unshare", "-nmpu", "--fork", "--mount-proc", "--kill-child"]
"""Where a Slurm of a test lives, and ends with its command."""
SHARED_MEMORY = Path("/dev/shm")
FIRST = (
    *("api", "check", "cli", "emulate", "launch", "record", "replay", "report"),
    *("learn", "plan", "submit", "test_documents.py", "test_wheels.py", "train"),
)
"""Folders and files that take long: they go first, so that no worker is left alone with one."""
WAITING = "backend"
"""The folder whose tests mostly wait: its files are spread among those that compute."""
HELPERS = ("multiprocessing.forkserver", "multiprocessing.resource_tracker")
"""Processes of Python's own, which end with the one that uses them."""
OF_MPI = ("mpich_shm_", "ucx_shm_", "vader_segment", "sm_segment")
"""How MPI libraries name their shared memory, which outlives ranks that are killed."""

# A busy machine makes every example slow, which says nothing about what it examines. Examples are
# the same each time: what a change breaks is told of that change, and not by luck of the next.
settings.register_profile(
    "steptime", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("steptime")

# Commands start sooner, and tests are collected in half the time, where what was compiled is kept.
sys.dont_write_bytecode = False

# The tests are shared out among all cores: there a second thread of OpenMP's or OpenBLAS's finds no
# core of its own, and waits for its work by keeping one busy.
for library in ("OMP", "OPENBLAS"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

# Nothing that is made while tests are collected is rubbish.
gc.disable()

# A shell starts a background command with SIGINT ignored, and so would be all that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Leftovers())
    own = Path(os.environ[SESSION], os.environ.get("PYTEST_XDIST_WORKER", "main"))
    own.mkdir()
    os.environ["TMPDIR"] = tempfile.tempdir = str(own)


@pytest.fixture(scope="session")
def slurm() -> list[str]:
    """The command that runs its arguments beside a Slurm of four nodes."""
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    programs = ("srun", "munged", "ip", "unshare")
    if absent := [name for name in programs if not shutil.which(name, path=path)]:
        pytest.skip(f"{', '.join(absent)} (packages slurm-wlm, munge, iproute2) is missing")
    command = [*NAMESPACES, "bash", str(TESTS / "minislurm.sh"), "4", "4"]
    if subprocess.run([*command, "true"], capture_output=True, timeout=600).returncode:
        pytest.skip("this user or machine allows no namespaces")
    return command


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One more than there are cores, where memory is for them: tests wait for times and others.

    Each collects all tests and imports what they use, so that more of them end no sooner.
    """
    return max(1, min(len(os.sched_getaffinity(0)) + 1, available_bytes() // (3 << 30)))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    folders = {item.path: item.path.relative_to(TESTS).parts[0] for item in items}
    waits = [path for path, folder in folders.items() if folder == WAITING]
    computes = [path for path, folder in folders.items() if folder != WAITING]
    computes.sort(key=lambda path: folders[path] not in FIRST)
    place = {}
    for files in (waits, computes):
        place |= {path: number / len(files) for number, path in enumerate(files)}
    items.sort(key=lambda item: place[item.path])


def pytest_collection_finish() -> None:
    gc.freeze()  # of what was collected nothing goes: it need not be looked through again
    gc.enable()


class Leftovers:
    """What the session's processes have left when it ends, seen by the one that started it."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="st-"))
        self.segments = set(SHARED_MEMORY.iterdir())
        self.found: list[str] = []
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
        os.environ[SESSION] = str(self.folder)
        # Last of all: multiprocessing removes its own folder within at -100.
        Finalize(None, shutil.rmtree, (self.folder, True), exitpriority=-200)
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        deadline = time.monotonic() + 60
        while (found := list(self._left())) and time.monotonic() < deadline:
            time.sleep(0.2)  # what has been ended may take a moment to be gone
        self.found = found
        if found and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for what in self.found:
            terminalreporter.write_line(f"the tests leave {what}", red=True)

    def _left(self) -> Iterator[str]:
        yield from (f"process {what}" for what in self._processes())
        yield from (f"shared memory {path}" for path in self._unmapped_segments())
        for path in self.folder.glob("*/*"):
            if not path.name.startswith(("pymp-", "torch")):  # a forkserver's, and torchrun's
                yield f"temporary file {path}"

    def _processes(self) -> Iterator[str]:
        mark = f"{SESSION}={self.folder}".encode()
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if path.name != str(os.getpid()) and mark in (path / "environ").read_bytes():
                    command = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                    if not any(helper in command for helper in HELPERS):
                        yield f"{path.name}: {command}"

    def _unmapped_segments(self) -> Iterator[Path]:
        """Segments that are new and that no process uses: others may run beside the tests."""
        new = [p for p in SHARED_MEMORY.iterdir() if p not in self.segments]
        mapped = ""
        if new:
            for path in Path("/proc").glob("[0-9]*/maps"):
                with suppress(OSError):
                    mapped += path.read_text()
        for path in new:
            if str(path) in mapped:
                continue
            if path.name.startswith(OF_MPI):
                path.unlink(missing_ok=True)  # nobody else does for a rank that a test killed
            else:
                yield path
