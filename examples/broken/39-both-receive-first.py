# two ranks exchange their parameters and both receive first: nobody ever sends. (The variant of
# NVIDIA/nccl#479 that no buffer hides.)
# run: torchrun --nproc-per-node 2 examples/broken/39-both-receive-first.py
# finds: deadlock at line 18 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
peer = 1 - rank
mine, theirs = torch.full((16,), float(rank)), torch.empty(16)


def receive():
    dist.recv(theirs, src=peer)


def send():
    dist.send(mine, dst=peer)


order = [receive, send]
for one in order:
    one()
print(f"rank {rank} has the parameters of rank {theirs[0].item():.0f}")
dist.destroy_process_group()
