# 136-rank-0-makes-all-parts, corrected: each rank makes its own part.
# run: torchrun --nproc-per-node 2 examples/broken/136-rank-0-makes-all-parts-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

WIDTH, ROWS = 256, 64


def prepared(rows):
    """Rows as a tokeniser or a reader of pictures would make them, one at a time."""
    made = torch.empty(rows, WIDTH)
    for number in range(rows):
        row = torch.randn(WIDTH)
        for _ in range(8):
            row = row.sort().values.flip(0)
        made[number] = row
    return made


def main():
    rank = dist.get_rank()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(WIDTH, WIDTH))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    torch.manual_seed(1 + rank)
    for _ in range(24):
        optimizer.zero_grad()
        model(prepared(ROWS)).square().mean().backward()
        optimizer.step()
    dist.barrier()
    dist.destroy_process_group()


dist.init_process_group(os.environ.get("BACKEND", "gloo"))
main()
