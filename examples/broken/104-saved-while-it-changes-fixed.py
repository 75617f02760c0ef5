# 104-saved-while-it-changes, corrected: the thread saves copies.
# run: torchrun --nproc-per-node 2 examples/broken/104-saved-while-it-changes-fixed.py
# finds: nothing

import copy
import os
import tempfile
import threading

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
torch.set_num_threads(1)
rank = dist.get_rank()
torch.manual_seed(0)
layers = nn.Sequential(*(nn.Linear(256, 256) for _ in range(40)))
layers[:-4].requires_grad_(False)  # the last layers alone are tuned: many steps pass within a save
model = DistributedDataParallel(layers)
optimizer = torch.optim.AdamW(layers[-4:].parameters(), lr=1e-3)
torch.manual_seed(1 + rank)
with tempfile.TemporaryDirectory() as folder:
    for step in range(20):
        optimizer.zero_grad()
        model(torch.randn(4, 256)).square().mean().backward()
        optimizer.step()
        if rank == 0 and step % 5 == 1:
            state = copy.deepcopy([layers.state_dict(), optimizer.state_dict()])
            saver = threading.Thread(target=torch.save, args=(state, f"{folder}/{step}.pt"))
            saver.start()
    if rank == 0:
        saver.join()
dist.barrier()
dist.destroy_process_group()
