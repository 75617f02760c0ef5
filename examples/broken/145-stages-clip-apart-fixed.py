# 145-stages-clip-apart, corrected: both stages clip by the norm of all gradients.
# run: torchrun --nproc-per-node 2 examples/broken/145-stages-clip-apart-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

MICRO_BATCHES, ROWS, WIDTH, CLASSES = 4, 16, 32, 8

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
torch.manual_seed(rank)
part = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()) if rank == 0 else nn.Linear(WIDTH, CLASSES)
stage = PipelineStage(part, rank, 2, torch.device("cpu"))
schedule = ScheduleGPipe(stage, MICRO_BATCHES, loss_fn=nn.functional.cross_entropy)
optimizer = torch.optim.SGD(part.parameters(), lr=0.5)
for _ in range(6):
    rows, labels = torch.randn(ROWS, WIDTH), torch.randint(CLASSES, (ROWS,))
    optimizer.zero_grad()
    schedule.step(rows) if rank == 0 else schedule.step(target=labels)
    squared = nn.utils.get_total_norm([one.grad for one in part.parameters()]).square()
    dist.all_reduce(squared)
    nn.utils.clip_grads_with_norm_(part.parameters(), 0.05, squared.sqrt())
    optimizer.step()
dist.destroy_process_group()
