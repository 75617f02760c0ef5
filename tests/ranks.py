"""Real ranks for tests: a function runs in N processes, joined by gloo, with a deadline.

The processes are forked from one that has imported torch already: importing it takes each rank two
seconds, longer than most tests.
"""

import gc
import multiprocessing
import os
import traceback
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from typing import Any


def _modules_of(package: str) -> list[str]:
    spec = find_spec(package)
    assert spec is not None
    folders = spec.submodule_search_locations
    return [f"{package}.{one.name}" for one in iter_modules(folders) if one.name[0] != "_"]


FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload(
    [
        *("jinja2", "numpy.ma", "rich.progress"),
        *("torch._dynamo", "torch.distributed.launcher"),
        *("steptime.backend", "steptime.cli.answer", "steptime.cli.compare", "steptime.cli.train"),
        *("steptime.api.comparing", "steptime.report.terminal", "steptime.study.compare"),
        *("steptime.study.programs", "steptime.study.record", "steptime.train.run"),
        *("steptime.world.alignment", "steptime.world.join"),
        *_modules_of("steptime.record"),
        *(
            name
            for of in ("", ".observe", ".judges")
            for name in _modules_of(f"steptime.check{of}")
        ),
    ]
)

_TIMEOUT_S = 600.0
TRIES = 3
BROKEN_OFF = "connectFullMesh failed"
"""What gloo says when it breaks off connecting, as it now and then does on a busy machine."""


def on_ranks(
    ranks: int,
    function: Callable[..., Any],
    folder: Path,
    *arguments: Any,
    backend: str = "gloo",
) -> list[Any]:
    """What ``function(*arguments)`` returns on each of ``ranks`` ranks, in order.

    The function must be importable (defined at the top of a test module). ``folder``, empty and
    the test's own, holds the store through which the ranks meet. The first failure of a rank is
    raised with its traceback; no process outlives the call.
    """
    for _ in range(TRIES - 1):
        try:
            return _once(ranks, function, folder, arguments, backend)
        except AssertionError as error:
            if BROKEN_OFF not in str(error):
                raise
    return _once(ranks, function, folder, arguments, backend)


def _once(
    ranks: int, function: Callable[..., Any], folder: Path, arguments: Any, backend: str
) -> list[Any]:
    queue = FORKED.Queue()
    store = folder / f"store-{backend}-{ranks}-{function.__name__}"
    given = dict(os.environ), queue, store
    processes = [
        FORKED.Process(target=_rank, args=(*given, rank, ranks, backend, function, arguments))
        for rank in range(ranks)
    ]
    for process in processes:
        process.start()
    results: list[Any] = [None] * ranks
    try:
        for _ in range(ranks):
            rank, result, error = queue.get(timeout=_TIMEOUT_S)
            if error:
                raise AssertionError(f"rank {rank} failed:\n{error}")
            results[rank] = result
    finally:
        for process in processes:
            process.join(timeout=60)
            if process.is_alive():
                process.kill()
                process.join()
        queue.close()
        store.unlink(missing_ok=True)
    return results


def _rank(
    environ: dict[str, str],
    queue: Any,
    store: Path,
    rank: int,
    ranks: int,
    backend: str,
    function: Callable[..., Any],
    arguments: Any,
) -> None:
    gc.freeze()  # to look through all of torch at the end takes longer than most functions
    os.environ.clear()  # of the process that it was forked from
    os.environ.update(environ)
    import torch
    import torch.distributed as dist

    import steptime.backend  # noqa: F401 - makes the backend steptime known

    torch.set_num_threads(1)
    try:
        dist.init_process_group(backend, f"file://{store}", rank=rank, world_size=ranks)
        result = function(*arguments)
        gc.collect()
        dist.barrier()
        dist.destroy_process_group()
        queue.put((rank, result, None))
    except BaseException:
        queue.put((rank, None, traceback.format_exc()))
