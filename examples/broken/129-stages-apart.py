# Silent: two pipelines of two stages each, whose mesh has an axis for the data. Nobody reduces the
# gradients along it, so each pipeline trains a model of its own.
# run: torchrun --nproc-per-node 4 examples/broken/129-stages-apart.py
# finds: drift at line 32 on ranks 0,1,2,3; ranks 0,1,2,3

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
torch.set_num_threads(1)
mesh = init_device_mesh("cpu", (world // 2, 2), mesh_dim_names=("data", "stage"))
data, stage = (mesh[name].get_local_rank() for name in ("data", "stage"))
torch.manual_seed(stage)
part = nn.Linear(64, 10) if stage else nn.Sequential(nn.Linear(64, 64), nn.ReLU())
piped = PipelineStage(part, stage, 2, torch.device("cpu"), group=mesh["stage"].get_group())
schedule = ScheduleGPipe(piped, n_microbatches=4, loss_fn=nn.functional.cross_entropy)
optimizer = torch.optim.SGD(part.parameters(), lr=0.05)
for step in range(8):
    torch.manual_seed(100 * step + data)
    images, labels = torch.randn(16, 64), torch.randint(0, 10, (16,))
    optimizer.zero_grad()
    if stage:
        schedule.step(target=labels)
    else:
        schedule.step(images)
    optimizer.step()
dist.barrier()
dist.destroy_process_group()
