# The right twin of 58-one-expects-less.py: who has too many drops them once they are there.
# run: torchrun --nproc-per-node 3 examples/broken/58-one-expects-less-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist

CAPACITY = 7
dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
tokens = torch.tensor([[2, 2, 2], [1, 3, 2], [1, 1, 4]])  # of each rank for the experts of each
sends, receives = tokens[rank].tolist(), tokens[:, rank].tolist()
mine = torch.ones(sum(sends), 8)
got = torch.empty(sum(receives), 8)
dist.all_to_all_single(got, mine, receives, sends)
kept = got[:CAPACITY]
print(rank, kept.sum().item())
dist.barrier()
dist.destroy_process_group()
