# pytorch/torchtitan#1733: gradients add up over several calls of a pipeline's schedule, which by
# default divides whatever stands in .grad by its micro-batches at the end of each call. What
# earlier calls have left is divided again and again, and the step is nearly that of the last.
# run: torchrun --nproc-per-node 2 examples/broken/174-scaled-again.py
# finds: drift at line 36 on rank 0, line 39 on rank 1; ranks 0,1

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
    return mse_loss(output, target) / CALLS


schedule = Schedule1F1B(stage, MICRO_BATCHES, loss_fn=loss_of)
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
