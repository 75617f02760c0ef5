# rank 0 takes the results of jobs from whichever rank has one, and waits for as many as there
# are jobs. A rank whose job has none goes on without a word: all wait for one another.
# run: torchrun --nproc-per-node 3 examples/broken/46-one-answer-too-few.py
# finds: deadlock at line 17 on rank 0, line 24 on ranks 1,2; ranks 0,1,2

import os

import torch
import torch.distributed as dist

JOBS = 8
dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
if rank == 0:
    answer = torch.zeros(1)
    for _ in range(JOBS):
        dist.recv(answer)
else:
    for job in range(rank - 1, JOBS, world - 1):
        answer = torch.tensor([float(job)])
        if job == 5:  # it has none
            continue
        dist.send(answer, 0)
dist.barrier()
dist.destroy_process_group()
