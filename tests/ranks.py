"""Real ranks for tests: a function runs in N processes, joined by gloo, with a deadline."""

import gc
import multiprocessing
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

_TIMEOUT_S = 120.0


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
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    store = folder / f"store-{backend}-{ranks}-{function.__name__}"
    processes = [
        context.Process(
            target=_rank, args=(queue, store, rank, ranks, backend, function, arguments)
        )
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
            process.join(timeout=10)
            if process.is_alive():
                process.kill()
                process.join()
        queue.close()
        store.unlink(missing_ok=True)
    return results


def _rank(
    queue: Any,
    store: Path,
    rank: int,
    ranks: int,
    backend: str,
    function: Callable[..., Any],
    arguments: Any,
) -> None:
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
