# deepspeedai/DeepSpeed#4808, here with FSDP2: parameters of each expert are gathered when it is
# called. No token of rank 1 is routed to the last expert, so rank 1 gathers the head while rank 0
# gathers that expert.
# run: torchrun --nproc-per-node 2 examples/broken/11-expert-without-tokens.py
# finds: mismatch at line 32 on rank 0, line 33 on rank 1; ranks 0,1

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
            if mine.any():
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
dist.destroy_process_group()
