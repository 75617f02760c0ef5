# slow though right: rank 0 reads and prepares the batches of all ranks, and scatters them. The
# others wait for that in each step, and each could have made its own part meanwhile.
# run: torchrun --nproc-per-node 2 examples/broken/136-rank-0-makes-all-parts.py
# finds: slow at line 37 on ranks 0,1; ranks 0

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
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(WIDTH, WIDTH))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    torch.manual_seed(1 + rank)
    for _ in range(24):
        batch = torch.empty(ROWS, WIDTH)
        parts = list(prepared(world * ROWS).chunk(world)) if rank == 0 else None
        dist.scatter(batch, parts, src=0)
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
    dist.barrier()
    dist.destroy_process_group()


dist.init_process_group(os.environ.get("BACKEND", "gloo"))
main()
