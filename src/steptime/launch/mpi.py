"""Starting MPI ranks on this host by the mpiexec of the MPI library that mpi4py uses."""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

from steptime.errors import SteptimeError, UsageError
from steptime.launch.mailbox import MAILBOX_VARIABLE, errors_in, make_mailbox
from steptime.launch.process import stops

_BANNER = re.compile(r"={60,}$")
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - where shm_open(3) puts it


def run_mpi_ranks(
    program: Sequence[str], ranks: int, threads: int, environ: Mapping[str, str] = os.environ
) -> int:
    """Run ``program`` as ``ranks`` processes of ``threads`` threads under mpiexec.

    ``program``: what follows ``python`` on a command line. The mpiexec is the one beside this
    Python, as pip installs it, or the first on the PATH. All ranks end with the first that fails,
    and with this process, whatever ends it.

    Returns 0 when all ranks ended with 0, or 128 plus the number of the signal that stopped them.
    Raises the error that a failing rank reported, SteptimeError that says how one died, and
    UsageError when there is no mpiexec. Must be called in the main thread.
    """
    with TemporaryDirectory(prefix="steptime-") as folder:
        variables = {
            MAILBOX_VARIABLE: folder,
            "OMP_NUM_THREADS": str(threads),
            "OPENBLAS_NUM_THREADS": str(threads),
            "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",  # Open MPI counts cores
        }
        if sys.stdout.isatty():
            variables["COLUMNS"] = str(shutil.get_terminal_size().columns)
        with make_mailbox(Path(folder), ranks) as ended:
            process = subprocess.Popen(
                [find_mpiexec(), "-n", str(ranks), sys.executable, *program],
                env={**environ, **variables},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
            )
            with _left_segments_removed(), _stopping(process) as stopped_by:
                _pass_on(process)
                code = process.wait()
        if stopped_by:
            return 128 + stopped_by[0]
        if code:
            raise _cause(Path(folder), ended, code)
    return 0


def find_mpiexec() -> str:
    """The mpiexec beside this Python, or the first on the PATH; UsageError when there is none."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    for name in ("mpiexec", "mpirun"):
        if found := shutil.which(name, path=path):
            return found
    raise UsageError(
        "there is no mpiexec to start MPI ranks with: pip install 'steptime[mpi]', or run this "
        "under the mpirun of your MPI"
    )


@contextmanager
def _left_segments_removed() -> Iterator[None]:
    """Remove MPICH's shared memory that appears in the block and no process maps at its end.

    Killed ranks leave theirs behind until the host is booted.
    """
    before = set(_SHARED_MEMORY.glob("mpich_shm_*"))
    try:
        yield
    finally:
        left = set(_SHARED_MEMORY.glob("mpich_shm_*")) - before
        mapped = "".join(_mappings()) if left else ""
        for segment in left:
            if str(segment) not in mapped:
                with suppress(OSError):
                    segment.unlink()


def _mappings() -> Iterator[str]:
    for path in Path("/proc").glob("[0-9]*/maps"):
        with suppress(OSError):
            yield path.read_text()


@contextmanager
def _stopping(process: subprocess.Popen[str]) -> Iterator[list[int]]:
    """End ``process`` on a signal that would end this one; yields the signals received."""
    came: list[int] = []

    def stop(number: int, _: FrameType | None) -> None:
        came.append(number)
        process.terminate()

    before = {number: signal.signal(number, stop) for number in stops()}
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _pass_on(process: subprocess.Popen[str]) -> None:
    """Print the output of mpiexec and the ranks; messages of mpiexec itself go to stderr."""

    def answer() -> None:
        stream, held_back = sys.stdout, ""
        for line in process.stdout or ():
            if _BANNER.match(line):  # hydra's own words, with an empty line before them
                stream = sys.stderr
            if line == "\n":
                held_back += line
                continue
            with suppress(OSError):
                stream.write(held_back + line)
                stream.flush()
            held_back = ""

    relay = threading.Thread(target=answer)
    relay.start()
    for line in process.stderr or ():
        sys.stderr.write(line)
        sys.stderr.flush()
    relay.join()


def _cause(mailbox: Path, ended: Sequence[int], code: int) -> SteptimeError:
    """Why mpiexec ended with ``code``: a rank's reported error, or the first rank that ended."""
    for error in errors_in(mailbox):
        return error
    if not ended:
        return SteptimeError(f"mpiexec ended with exit code {code} before any rank did anything")
    return SteptimeError(f"rank {ended[0]} died; what is said of it stands above")
