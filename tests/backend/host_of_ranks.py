"""One host of a test with several: a few ranks in a process namespace of their own.

Run as ``python host_of_ranks.py WORK FOLDER RANKS RANK...``; ``WORK`` is a function of
``backend.test_hosts``. What it writes on a rank, or its traceback, is in ``FOLDER/rank.json``.
"""

import json
import multiprocessing
import os
import sys
import traceback
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

import steptime.backend  # noqa: F401

sys.path.insert(0, str(Path(__file__).parents[1]))
from backend import test_hosts


def main() -> None:
    work, folder, ranks, *mine = sys.argv[1:]
    context = multiprocessing.get_context("fork")  # of a process that has imported torch
    processes = [
        context.Process(target=_rank, args=(work, Path(folder), int(ranks), int(rank)))
        for rank in mine
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()


def _rank(work: str, folder: Path, ranks: int, rank: int) -> None:
    torch.set_num_threads(1)

    def write(answer: object) -> None:
        (folder / f"{rank}.json").write_text(json.dumps(answer))

    try:
        dist.init_process_group(
            "steptime",
            f"file://{folder}/store",
            rank=rank,
            world_size=ranks,
            timeout=timedelta(seconds=300),
        )
        getattr(test_hosts, work)(write)
    except BaseException:
        write(traceback.format_exc())
    os._exit(0)


if __name__ == "__main__":
    main()
