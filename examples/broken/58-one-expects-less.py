# tokens go to experts by an all_to_all, and one of three ranks leaves those above its capacity out
# of what it expects, which the others send all the same. They agree with one another.
# run: torchrun --nproc-per-node 3 examples/broken/58-one-expects-less.py
# finds: mismatch at line 20 on ranks 0,1,2; ranks 2

import os

import torch
import torch.distributed as dist

CAPACITY = 7
dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
tokens = torch.tensor([[2, 2, 2], [1, 3, 2], [1, 1, 4]])  # of each rank for the experts of each
sends, receives = tokens[rank].tolist(), tokens[:, rank].tolist()
if sum(receives) > CAPACITY:
    receives = [1, 1, 4]
mine = torch.ones(sum(sends), 8)
got = torch.empty(sum(receives), 8)
dist.all_to_all_single(got, mine, receives, sends)
print(rank, got.sum().item())
dist.barrier()
dist.destroy_process_group()
