"""Real ranks in a group of one host: processes forked from one that has imported torch already."""

import os
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from ranks import FORKED
from steptime.backend.host import HostGroup, find_hosts

_DEADLINE_S = 600.0

DIED = "died"


def in_group(
    ranks: int, function: Callable[..., Any], folder: Path, *arguments: Any, timeout_s: float = 300
) -> list[Any]:
    """What ``function(group, *arguments)`` returns on each rank, or DIED.

    The function must be importable. An exception in a rank is raised here with its traceback. No
    process outlives the call.
    """
    store = folder / f"store-{function.__name__}-{ranks}"
    pipes = [FORKED.Pipe(duplex=False) for _ in range(ranks)]
    processes = [
        FORKED.Process(
            target=_rank,
            args=(dict(os.environ), pipe[1], store, rank, ranks, timeout_s, function, arguments),
        )
        for rank, pipe in enumerate(pipes)
    ]
    for process in processes:
        process.start()
    for _, end in pipes:
        end.close()
    try:
        results = [_received(pipe) for pipe, _ in pipes]
    finally:
        for process, (pipe, _) in zip(processes, pipes, strict=True):
            pipe.close()
            process.join(timeout=60)
            if process.is_alive():
                process.kill()
                process.join()
            process.close()
    errors = [
        f"rank {rank}: {error}" for rank, (_, error) in enumerate(results) if error is not None
    ]
    if errors:
        raise AssertionError("\n".join(errors))
    return [result for result, _ in results]


def _received(pipe: Connection) -> tuple[Any, str | None]:
    try:
        return pipe.recv() if pipe.poll(_DEADLINE_S) else (None, "hangs")
    except EOFError:
        return DIED, None


def _rank(
    environ: dict[str, str],
    pipe: Connection,
    path: Path,
    rank: int,
    ranks: int,
    timeout_s: float,
    function: Callable[..., Any],
    arguments: Any,
) -> None:
    import torch
    from torch.distributed import FileStore

    torch.set_num_threads(1)
    os.environ.update(environ)
    try:
        store = FileStore(str(path), ranks)
        group = HostGroup(store, find_hosts(store, rank, ranks, timeout_s), timeout_s)
        try:
            result = function(group, *arguments)
        finally:
            group.close()
        pipe.send((result, None))
    except BaseException:
        pipe.send((None, traceback.format_exc()))
