# vllm-project/speculators#926: a training goes on after a restart, and only rank 0 loads the state
# of its optimizer. The gradients are the same on all ranks, the steps made of them are not.
# run: torchrun --nproc-per-node 2 examples/broken/67-state-of-one-optimizer.py
# finds: drift at line 27 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(nn.Linear(16, 16))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for step in range(24):
    if step == 12:  # where the training was stopped
        state = optimizer.state_dict()
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        if rank == 0:
            optimizer.load_state_dict(state)
    torch.manual_seed(2 * step + rank)
    loss = model(torch.randn(8, 16)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if rank == 0 and step % 8 == 0:
        print(f"step {step}: {loss.item():.3f}")
dist.destroy_process_group()
