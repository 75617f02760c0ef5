# The right twin of 46-one-answer-too-few.py: a job without a result is answered, too.
# run: torchrun --nproc-per-node 3 examples/broken/46-one-answer-too-few-fixed.py
# finds: nothing

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
            answer = torch.tensor([-1.0])
        dist.send(answer, 0)
dist.barrier()
dist.destroy_process_group()
