# The right twin of 95-one-micro-batch.py: of two micro-batches each stage has one at a time.
# run: torchrun --nproc-per-node 2 examples/broken/95-one-micro-batch-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

MICRO_BATCHES = 2
dist.init_process_group(os.environ.get("BACKEND", "gloo"))
torch.set_num_threads(1)
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(rank)
layers = nn.Sequential(*(nn.Linear(1024, 1024) for _ in range(4)))
stage = PipelineStage(layers, rank, world, torch.device("cpu"))
schedule = ScheduleGPipe(stage, MICRO_BATCHES, loss_fn=nn.functional.mse_loss)
optimizer = torch.optim.SGD(layers.parameters(), lr=0.01)
batch, target = torch.randn(512, 1024), torch.randn(512, 1024)
for _ in range(16):
    if rank == 0:
        schedule.step(batch)
    elif rank == world - 1:
        schedule.step(target=target)
    else:
        schedule.step()
    optimizer.step()
    optimizer.zero_grad()
dist.barrier()
dist.destroy_process_group()
