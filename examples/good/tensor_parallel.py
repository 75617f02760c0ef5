# Tensor parallelism by DTensor: the first layer split by columns, the second by rows.
# run: torchrun --nproc-per-node 2 examples/good/tensor_parallel.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(128, 512), nn.Linear(512, 128)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.relu(self.up(x)))


dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
mesh = init_device_mesh("cpu", (world,), mesh_dim_names=("tensor",))
torch.manual_seed(0)
model = nn.Sequential(Layer(), Layer())
for layer in model:
    parallelize_module(layer, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
batch, target = torch.randn(32, 128), torch.randn(32, 128)
losses = []
for _ in range(10):
    loss = (model(batch) - target).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    losses.append(loss.detach())
if rank == 0:
    print(f"loss {losses[0]:.3f} to {losses[-1]:.3f}")
assert losses[-1] < losses[0]
dist.barrier()
dist.destroy_process_group()
