# 106-workers-stand-still, corrected: the workers are there before the thread is.
# run: torchrun --nproc-per-node 2 examples/broken/106-workers-stand-still-fixed.py
# finds: nothing

import os
import threading
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
lock = threading.Lock()


class Samples(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, number):
        with lock:  # as a tokenizer's, or that of a log
            return torch.full((8,), float(number))


def reports():
    with lock:
        time.sleep(1)


total = torch.zeros(8)
batches = iter(DataLoader(Samples(), batch_size=8, num_workers=1, timeout=28))
threading.Thread(target=reports).start()
for batch in batches:
    total += batch.sum(0)
dist.all_reduce(total)
dist.destroy_process_group()
