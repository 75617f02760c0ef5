# mosaicml/composer#2146: the last save of one rank failed. Each rank goes on from the newest of its
# own shards, and nothing says that they are of other steps.
# run: torchrun --nproc-per-node 2 examples/broken/167-newest-of-each.py
# finds: drift at line 44 on ranks 0,1; ranks 0,1

import os
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard


def train(steps: range) -> None:
    for step in steps:
        rows = torch.randn(8, 32)
        optimizer.zero_grad()
        model(rows).square().mean().backward()
        optimizer.step()
        if step % 2 and (rank, step) != (1, 5):
            state = {name: one.to_local().detach() for name, one in model.named_parameters()}
            torch.save({"model": state, "step": step}, folder / f"{step}-of-{rank}.pt")


def newest() -> Path:
    return max(folder.glob(f"*-of-{rank}.pt"))


dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
shared = [tempfile.mkdtemp() if rank == 0 else ""]
dist.broadcast_object_list(shared)
folder = Path(shared[0])
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1))
fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
torch.manual_seed(10 + rank)
train(range(6))
dist.barrier()
with torch.no_grad():
    saved = torch.load(newest(), weights_only=True)
    for name, one in model.named_parameters():
        one.to_local().copy_(saved["model"][name])
train(range(6, 10))
dist.destroy_process_group()
