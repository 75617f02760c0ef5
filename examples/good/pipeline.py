# A pipeline of two stages and four micro-batches, by torch.distributed.pipelining.
# run: torchrun --nproc-per-node 2 examples/good/pipeline.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

MICRO_BATCHES = 4
dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(rank)
layers = nn.Sequential(nn.Linear(128, 128), nn.GELU(), nn.Linear(128, 128))
stage = PipelineStage(layers, rank, world, torch.device("cpu"))
schedule = Schedule1F1B(stage, MICRO_BATCHES, loss_fn=nn.functional.mse_loss)
optimizer = torch.optim.AdamW(layers.parameters(), lr=1e-3)
torch.manual_seed(0)
batch, target = torch.randn(64, 128), torch.randn(64, 128)
means = []
for _ in range(10):
    losses: list[torch.Tensor] = []
    if rank == 0:
        schedule.step(batch)
    else:
        schedule.step(target=target, losses=losses)
    optimizer.step()
    optimizer.zero_grad()
    if losses:
        means.append(torch.stack(losses).mean().item())
if means:
    print(f"loss {means[0]:.3f} to {means[-1]:.3f}")
    assert means[-1] < means[0]
dist.barrier()
dist.destroy_process_group()
