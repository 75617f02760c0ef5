# pytorch/torchtitan#596: the stages of a pipeline clip, each by the norm of its own gradients, and
# so scale the parts of one model apart.
# run: torchrun --nproc-per-node 2 examples/broken/145-stages-clip-apart.py
# finds: drift at line 26 on ranks 0,1; ranks 0,1

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
    nn.utils.clip_grad_norm_(part.parameters(), 0.05)
    optimizer.step()
dist.destroy_process_group()
