# The right twin of 39-both-receive-first.py: one of them sends first.
# run: torchrun --nproc-per-node 2 examples/broken/39-both-receive-first-fixed.py
# finds: nothing

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


order = [receive, send] if rank == 0 else [send, receive]
for one in order:
    one()
print(f"rank {rank} has the parameters of rank {theirs[0].item():.0f}")
assert (theirs == peer).all()
dist.barrier()
dist.destroy_process_group()
