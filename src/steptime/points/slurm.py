"""Jobs of a Slurm array that work out points, sent by submitit.

submitit asks sacct whether a job is over, at last every ten minutes, and where Slurm keeps no
accounts it never learns that one died. So the queue is asked here.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from shutil import which
from threading import Event, Thread
from typing import Any, TypeVar

from steptime.errors import SteptimeError, UsageError
from steptime.points.local import one_thread
from steptime.slurm import SilentError, cancel, look, queued

R = TypeVar("R")
_MINUTES = 60
"""What Slurm is asked for; SBATCH_TIMELIMIT, SBATCH_PARTITION and so on go before what we ask."""

_POLL_S = 1.0
_QUEUE_S = 10.0
"""How long between two looks at the queue; as long a result may take to be seen from here."""


@contextmanager
def slurm_array(folder: Path, at_a_time: int) -> Iterator["SlurmArray"]:
    """An array of which so many jobs run at a time; ``folder``, seen by all hosts, has their logs.

    Jobs that are left at the end of the block are cancelled. Raises UsageError without submitit or
    Slurm.
    """
    try:
        import submitit
    except ImportError:
        raise UsageError("--jobs slurm:N needs submitit: pip install 'steptime[slurm]'") from None
    if which("sbatch") is None:
        raise UsageError(
            "--jobs slurm:N needs Slurm, and there is no sbatch here: run it on a host that "
            "submits jobs, or give --jobs a number alone"
        )
    slurm = submitit.AutoExecutor(folder=folder, cluster="slurm")
    slurm.update_parameters(
        name="steptime",
        timeout_min=_MINUTES,
        cpus_per_task=1,
        slurm_array_parallelism=at_a_time,
    )
    array = SlurmArray(slurm)
    try:
        yield array
    finally:
        array.shutdown(cancel_futures=True)


class SlurmArray(Executor):
    """submitit's jobs as an executor: what is submitted within a second becomes one array."""

    def __init__(self, slurm: Any) -> None:
        self._slurm = slurm
        self._waiting: SimpleQueue[tuple[Future[Any], tuple[Any, ...]]] = SimpleQueue()
        self._under_way: list[tuple[Future[Any], Any]] = []
        self._gone: set[str] = set()
        self._looked = time.monotonic()
        self._over = Event()
        self._thread = Thread(target=self._attend, daemon=True)
        self._thread.start()

    def submit(self, fn: Callable[..., R], /, *args: Any, **kwargs: Any) -> Future[R]:
        """Let a job call ``fn``."""
        future: Future[R] = Future()
        self._waiting.put((future, (fn, args, kwargs)))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Send nothing more; with ``cancel_futures`` the jobs that are under way are cancelled."""
        while wait and not cancel_futures and (not self._waiting.empty() or self._under_way):
            time.sleep(_POLL_S)
        self._over.set()
        self._thread.join()
        cancel(self._arrays())
        for future, _ in self._under_way:
            future.cancel()

    def _attend(self) -> None:
        """Send what waits, and tell the futures of jobs that have ended."""
        while not self._over.wait(_POLL_S):
            self._send([*self._submitted()])
            lost = self._lost()
            under_way = self._under_way
            self._under_way = []
            for future, job in under_way:
                if job.paths.result_pickle.exists():
                    _tell(future, job)
                elif job.job_id in lost:
                    future.set_exception(_loss(job))
                else:
                    self._under_way.append((future, job))

    def _arrays(self) -> set[str]:
        """The arrays of which jobs are under way."""
        return {job.job_id.partition("_")[0] for _, job in self._under_way}

    def _lost(self) -> set[str]:
        """Jobs that were not in the queue twice, and so will leave no result any more."""
        if not self._under_way or time.monotonic() < self._looked + _QUEUE_S:
            return set()
        self._looked = time.monotonic()
        try:
            there = queued(self._arrays())
        except SilentError:  # its controller may be started again just now
            return set()
        gone = {job.job_id for _, job in self._under_way} - there
        lost, self._gone = gone & self._gone, gone
        return lost

    def _submitted(self) -> Iterator[tuple[Future[Any], tuple[Any, ...]]]:
        with suppress(Empty):
            while True:
                yield self._waiting.get_nowait()

    def _send(self, waiting: Sequence[tuple[Future[Any], tuple[Any, ...]]]) -> None:
        if not waiting:
            return
        try:
            jobs = self._slurm.map_array(_called, [task for _, task in waiting])
        except Exception as error:  # whatever sbatch or submitit says
            for future, _ in waiting:
                future.set_exception(SteptimeError(f"Slurm takes no array: {error}"))
        else:
            futures = [future for future, _ in waiting]
            self._under_way += zip(futures, jobs, strict=True)


def _called(task: tuple[Callable[..., R], tuple[Any, ...], dict[str, Any]]) -> R:
    """The result of one task, in a job."""
    one_thread()
    function, args, kwargs = task
    return function(*args, **kwargs)


def _tell(future: Future[Any], job: Any) -> None:
    try:
        future.set_result(job.result())
    except Exception as error:
        # The trace stands between lines of dashes, and what else submitit says after them.
        trace = str(error).partition("You can check full logs")[0]
        why = [line for line in trace.strip().splitlines() if line.strip("- ")]
        future.set_exception(
            SteptimeError(f"job {job.job_id} of Slurm failed: {why[-1] if why else error!r}")
        )


def _loss(job: Any) -> SteptimeError:
    """What is said of a job that ended without a result."""
    try:
        state = look(job.job_id).state
    except SteptimeError:
        state = "one that Slurm has forgotten"
    return SteptimeError(
        f"job {job.job_id} of Slurm ended as {state} without a result: {job.paths.stderr} may say "
        "why; SBATCH_TIMELIMIT, SBATCH_MEM_PER_NODE and so on ask for more"
    )
