# huggingface/accelerate#3209 and intelligent-machine-learning/dlrover#584: the optimizer is made of
# the parameters that the model had before it was sharded. It steps those, and nothing is trained.
# run: torchrun --nproc-per-node 2 examples/broken/79-optimizer-before-sharding.py
# finds: race at line 25 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
fully_shard(model)
for step in range(6):
    torch.manual_seed(2 * step + dist.get_rank())
    inputs = torch.randn(16, 64)
    loss = (model(inputs) - inputs).square().mean()
    optimizer.zero_grad()
    model.zero_grad()
    loss.backward()
    optimizer.step()
    if dist.get_rank() == 0:
        print(f"step {step} loss {loss.item():.3f}")
dist.destroy_process_group()
