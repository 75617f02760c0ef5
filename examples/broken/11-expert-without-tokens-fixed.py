# The right twin of 11-expert-without-tokens.py: every expert is called, with no rows where no
# token wants it.
# run: torchrun --nproc-per-node 2 examples/broken/11-expert-without-tokens-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
mesh = init_device_mesh("cpu", (world,))
torch.manual_seed(0)


class Mixture(nn.Module):
    def __init__(self):
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(64, 64) for _ in range(3))
        self.head = nn.Linear(64, 1000)

    def forward(self, x, wanted):
        mixed = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            mine = wanted == number
            mixed[mine] = expert(x[mine])
        return self.head(mixed)


model = Mixture()
for layer in [*model.experts, model.head]:
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
wanted = torch.arange(12) % (3 if rank == 0 else 2)
loss = model(torch.randn(12, 64), wanted).square().mean()
loss.backward()
print(f"rank {rank}: loss {loss.item():.3f}")
assert all(one.grad is not None for one in model.parameters())
dist.barrier()
dist.destroy_process_group()
