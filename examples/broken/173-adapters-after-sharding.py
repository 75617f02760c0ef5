# huggingface/transformers#48792: adapters are attached to a model that is sharded already. They are
# plain tensors beside its shards, and nobody reduces their gradients.
# run: torchrun --nproc-per-node 2 examples/broken/173-adapters-after-sharding.py
# finds: drift at line 42 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

WIDTH, LOW = 32, 4


class Adapted(nn.Module):
    def __init__(self, layer: nn.Module):
        super().__init__()
        self.layer = layer
        self.down = nn.Parameter(torch.randn(LOW, WIDTH) / WIDTH)
        self.up = nn.Parameter(torch.zeros(WIDTH, LOW))

    def forward(self, x):
        return self.layer(x) + x @ self.down.T @ self.up.T


dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))
model.requires_grad_(False)
for layer in (model[0], model[2], model):
    fully_shard(layer)
model[0], model[2] = Adapted(model[0]), Adapted(model[2])
trained = [one for one in model.parameters() if one.requires_grad]
optimizer = torch.optim.AdamW(trained, lr=1e-2)
torch.manual_seed(10 + rank)
for _ in range(6):
    rows = torch.randn(16, WIDTH)
    optimizer.zero_grad()
    (model(rows) - rows).square().mean().backward()
    optimizer.step()
dist.destroy_process_group()
