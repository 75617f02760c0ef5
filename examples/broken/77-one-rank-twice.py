# pytorch/pytorch#23074 and Lightning-AI/pytorch-lightning#4389: the rank is taken from a variable
# that does not count over all processes, as LOCAL_RANK on a second host, or SLURM_PROCID where srun
# starts the launcher. Several join as the same rank, and all wait for one that nobody is.
# run: torchrun --nproc-per-node 2 examples/broken/77-one-rank-twice.py
# finds: mismatch at line 14 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist

rank = int(os.environ.get("SLURM_PROCID", "0"))
world = int(os.environ["WORLD_SIZE"])
dist.init_process_group(os.environ.get("BACKEND", "gloo"), rank=rank, world_size=world)
total = torch.ones(4)
dist.all_reduce(total)
print(f"rank {rank} of {world}: {total.tolist()}")
dist.destroy_process_group()
