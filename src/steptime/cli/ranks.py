"""Running a verb on ranks: those of a launcher, or our own."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path

from steptime.cli.options import OutputOptions, RankOptions
from steptime.cli.printing import mistake, tell_error
from steptime.errors import SteptimeError, UsageError
from steptime.limits import MOST_RANKS_HERE, check_within
from steptime.runs import run_folder
from steptime.world import SINGLE, World, check_ranks, detect

_WITHOUT_TORCH = ("bench", "tune", "proxy", "replay", "topo")
"""The verbs that can run on MPI."""


@dataclass(frozen=True)
class Place:
    """Where a rank's work happens: which rank it is, with how many threads, leaving what where."""

    world: World
    threads: int
    out: Path


def on_ranks(
    verb: str,
    options: RankOptions,
    output: OutputOptions,
    default_ranks: int,
    check: Callable[[int], None],
    work: Callable[[Place], None],
    *,
    stop_s: float | None = None,
) -> int:
    """Run ``work`` on every rank and return the exit code.

    In a launcher's process this one is a rank. Otherwise the command starts itself once for each
    rank and watches over them; a single rank needs no second process. ``check`` is given the number
    of ranks and raises UsageError for what could not be done, before any rank starts. ``stop_s``:
    how long the ranks have to keep their work when SIGTERM comes, where they do so.
    """
    check_torch(verb, options.backend)
    world = detect(os.environ)
    if world is not None:
        check_ranks(world, options.ranks)
    ranks = world.size if world else options.ranks or default_ranks
    threads = options.threads or max(1, _cores() // (world.local_size if world else ranks))
    out = output.out or run_folder.default_path(verb, datetime.now())
    if world is None and ranks > 1:
        from steptime.launch import TORCH, run_mpi_ranks, run_ranks

        check_within("--ranks", ranks, 1, MOST_RANKS_HERE)
        check(ranks)
        program = ["-m", "steptime", *sys.argv[1:]]
        if output.out is None:
            program += ["--out", str(out)]
        with run_folder.created(out):
            if options.backend == "mpi":
                return run_mpi_ranks(program, ranks, threads)
            imports = (*TORCH, f"steptime.cli.{verb}", "steptime.api.results")
            return run_ranks(program, ranks, threads, imports=imports, stop_s=stop_s)
    _as_rank(verb, Place(world or SINGLE, threads, out), options, output, check, work)
    return 0


def check_torch(verb: str, backend: str) -> None:
    """Raise UsageError where the verb needs torch and there is none, or none with this backend."""
    if backend == "mpi":
        if verb not in _WITHOUT_TORCH:
            raise UsageError(
                f"{verb} needs torch.distributed, and PyTorch's wheels carry no MPI: choose "
                "another --backend"
            )
    elif find_spec("torch") is None:  # to import it would take a second, and only ranks need it
        instead = ", or choose --backend mpi" if verb in _WITHOUT_TORCH else ""
        raise UsageError(f"{verb} needs PyTorch: pip install 'steptime[train]'{instead}")


def _as_rank(
    verb: str,
    place: Place,
    options: RankOptions,
    output: OutputOptions,
    check: Callable[[int], None],
    work: Callable[[Place], None],
) -> None:
    from steptime.launch import end_rank, follow_launcher

    follow_launcher(os.environ)
    try:
        ours = place.world.launcher == "steptime"
        if not ours:
            check(place.world.size)
        makes = not ours and place.world.rank == 0
        with run_folder.created(place.out) if makes else nullcontext():
            _work(place, options, work)
    except SteptimeError as error:
        tell_error(error, verb, as_json=output.json)
        end_rank(error.exit_code)
    except OSError as error:
        failed = SteptimeError(f"rank {place.world.rank} failed: {error}")
        tell_error(failed, verb, as_json=output.json)
        end_rank(SteptimeError.exit_code)
    except KeyboardInterrupt:
        end_rank(128 + signal.SIGINT)
    except Exception as error:
        # A mistake of ours: the others wait for this rank, so it must not wait for them.
        tell_error(mistake(error), verb, as_json=output.json)
        end_rank(SteptimeError.exit_code)


def _work(place: Place, options: RankOptions, work: Callable[[Place], None]) -> None:
    with _joined(place, options) as of_rank_0:
        # Where the path has a time in it, the ranks may differ.
        work(replace(place, out=of_rank_0(place.out)))


@contextmanager
def _joined(place: Place, options: RankOptions) -> Iterator[Callable[[Path], Path]]:
    """Be a rank inside the ``with`` block; the result gives every rank what rank 0 gives it."""
    if options.backend == "mpi":
        from steptime.world.mpi import joined_by_mpi

        with joined_by_mpi(place.world) as communicator:
            yield communicator.bcast
        return
    if options.backend == "steptime":
        import steptime.backend  # noqa: F401
    from steptime.world.join import joined

    with joined(place.world, options.backend, threads=place.threads, timeout_s=options.timeout_s):
        yield _path_of_rank_0


def _path_of_rank_0(out: Path) -> Path:
    """What rank 0 calls ``out``."""
    import torch.distributed as dist

    paths = [out]
    dist.broadcast_object_list(paths, src=0)
    return paths[0]


def _cores() -> int:
    return len(os.sched_getaffinity(0))
