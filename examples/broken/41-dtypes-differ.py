# one rank has loaded its part of a checkpoint in half precision, and the same number of bytes is
# summed as other numbers than were sent.
# run: torchrun --nproc-per-node 2 examples/broken/41-dtypes-differ.py
# finds: mismatch at line 14 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
statistics = torch.ones(1000) if rank == 0 else torch.ones(2000, dtype=torch.bfloat16)
dist.all_reduce(statistics)
print(f"rank {rank}: sum {statistics[0].item()}")
assert (statistics != 2).any()
dist.destroy_process_group()
