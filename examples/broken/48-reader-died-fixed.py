# The right twin of 48-reader-died.py: a row that cannot be read counts as zeros.
# run: torchrun --nproc-per-node 2 examples/broken/48-reader-died-fixed.py
# finds: nothing

import os
import queue
import threading
from datetime import timedelta

import torch
import torch.distributed as dist


def read(rows, rank):
    for number in range(20):
        text = "1 2 3" if (rank, number) != (1, 7) else "1 2 x"
        try:
            row = [float(word) for word in text.split()]
        except ValueError:
            row = [0.0] * 3
        rows.put(torch.tensor(row))


dist.init_process_group(os.environ.get("BACKEND", "gloo"), timeout=timedelta(seconds=12))
rows = queue.Queue(maxsize=4)
threading.Thread(target=read, args=(rows, dist.get_rank()), daemon=True).start()
for _ in range(20):
    row = rows.get()
    dist.all_reduce(row)
dist.destroy_process_group()
