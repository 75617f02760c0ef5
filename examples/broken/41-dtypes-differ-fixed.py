# The right twin of 41-dtypes-differ.py: the part is converted to the precision that all have.
# run: torchrun --nproc-per-node 2 examples/broken/41-dtypes-differ-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
statistics = torch.ones(1000) if rank == 0 else torch.ones(2000, dtype=torch.bfloat16)
statistics = statistics[:1000].float()
dist.all_reduce(statistics)
print(f"rank {rank}: sum {statistics[0].item()}")
assert (statistics == 2).all()
dist.barrier()
dist.destroy_process_group()
