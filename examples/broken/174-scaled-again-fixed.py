# The right twin of 174-scaled-again.py: the schedule leaves the gradients as they are, and the loss
# is divided by all micro-batches.
# run: torchrun --nproc-per-node 2 examples/broken/174-scaled-again-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.nn.functional import mse_loss

CALLS, MICRO_BATCHES, BATCH = 4, 4, 64
dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
torch.manual_seed(1 + rank)
widths = (16, 128, 64) if rank == 0 else (64, 128, 4)
module = nn.Sequential(nn.Linear(*widths[:2]), nn.GELU(), nn.Linear(*widths[1:]))
stage = PipelineStage(module, rank, 2, torch.device("cpu"))


def loss_of(output, target):
    return mse_loss(output, target) / (CALLS * MICRO_BATCHES)


schedule = Schedule1F1B(stage, MICRO_BATCHES, loss_fn=loss_of, scale_grads=False)
optimizer = torch.optim.SGD(module.parameters(), lr=0.3)
samples = torch.Generator().manual_seed(2)
truth = torch.randn(16, 4, generator=samples)
for step in range(10):
    for _ in range(CALLS):
        inputs = torch.randn(BATCH, 16, generator=samples)
        if rank == 0:
            schedule.step(inputs)
        else:
            losses = []
            schedule.step(target=(inputs @ truth).tanh(), losses=losses)
    optimizer.step()
    optimizer.zero_grad()
    if rank == 1:
        print(f"step {step}: loss {torch.stack(losses).mean().item():.4f}")
dist.destroy_process_group()
