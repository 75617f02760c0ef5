# NVIDIA/nccl#479: two ranks exchange halos, both with a blocking send before the receive. Above
# the size that a backend buffers each waits for the other to receive.
# run: torchrun --nproc-per-node 2 examples/broken/16-both-send-first.py
# finds: deadlock at line 17 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
peer = 1 - rank
mine = torch.full((8_000_000,), float(rank))
theirs = torch.empty_like(mine)
dist.barrier()
dist.send(mine, peer)
dist.recv(theirs, peer)
print(f"rank {rank} has the halo of rank {theirs[0].item():.0f}")
dist.destroy_process_group()
