# a thread reads ahead, and ends with an exception on one rank. That rank waits for its next row
# for ever, and the others for it. It is no deadlock of calls: one rank is late.
# run: torchrun --nproc-per-node 2 examples/broken/48-reader-died.py
# finds: straggler at line 18 on rank 1, line 27 on rank 0; ranks 1

import os
import queue
import threading
from datetime import timedelta

import torch
import torch.distributed as dist


def read(rows, rank):
    for number in range(20):
        text = "1 2 3" if (rank, number) != (1, 7) else "1 2 x"
        row = [float(word) for word in text.split()]
        rows.put(torch.tensor(row))


dist.init_process_group(os.environ.get("BACKEND", "gloo"), timeout=timedelta(seconds=12))
rows = queue.Queue(maxsize=4)
threading.Thread(target=read, args=(rows, dist.get_rank()), daemon=True).start()
for _ in range(20):
    row = rows.get()
    dist.all_reduce(row)
dist.destroy_process_group()
