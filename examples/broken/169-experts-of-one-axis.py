# NVIDIA-NeMo/Automodel PR #3135: the experts are sharded over the shards' axis of the mesh alone,
# and nobody reduces their gradients over that of the replicas.
# run: torchrun --nproc-per-node 4 examples/broken/169-experts-of-one-axis.py
# finds: drift at line 42 on ranks 0,1,2,3; ranks 0,1,2,3

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(32, 32), nn.Linear(32, 1)
        self.experts = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32))

    def forward(self, rows):
        hidden = self.first(rows).relu()
        return self.last(hidden + self.experts(hidden))


dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
torch.manual_seed(0)
model = Model()
of_experts = mesh["shard"]
fully_shard(model.experts, mesh=of_experts)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
torch.manual_seed(10 + rank)
for _ in range(6):
    rows = torch.randn(8, 32)
    loss = model(rows).square().mean()
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_value_(model.parameters(), 1.0)
    optimizer.step()
dist.destroy_process_group()
