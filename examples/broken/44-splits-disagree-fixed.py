# The right twin of 44-splits-disagree.py: the numbers are exchanged first.
# run: torchrun --nproc-per-node 2 examples/broken/44-splits-disagree-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
tokens = torch.tensor([[2, 3], [4, 1]])  # of each rank for the experts of each
sends = tokens[rank].tolist()
counts = torch.empty(world, dtype=torch.int64)
dist.all_to_all_single(counts, tokens[rank].clone())
receives = counts.tolist()
mine = torch.arange(float(sum(sends))) + 100 * rank
got = torch.empty(sum(receives))
dist.all_to_all_single(got, mine, receives, sends)
print(rank, got.tolist())
dist.barrier()
dist.destroy_process_group()
