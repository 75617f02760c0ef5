# pytorch/torchtitan#1805: a parameter that all ranks have is used by to_local, each with its own
# part of the sequence. Without grad_placements its gradient, that of the part, is taken for that of
# the whole.
# run: torchrun --nproc-per-node 2 examples/broken/118-gradient-of-a-part.py
# finds: drift at line 41 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, distribute_tensor

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
torch.set_num_threads(1)
mesh = init_device_mesh("cpu", (world,))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(50, 32), nn.Linear(32, 50)
        self.gain = nn.Parameter(distribute_tensor(torch.ones(32), mesh, [Replicate()]))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        own = self.embedding(tokens).chunk(world, 1)[rank]
        return self.head(own * self.gain.to_local())


torch.manual_seed(0)
model = Net()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
for step in range(12):
    torch.manual_seed(1 + step)
    tokens, targets = torch.randint(0, 50, (4, 8)), torch.randint(0, 50, (4, 8))
    own = targets.chunk(world, 1)[rank]
    loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), own.flatten()) / world
    optimizer.zero_grad()
    loss.backward()
    for parameter in (*model.embedding.parameters(), *model.head.parameters()):
        dist.all_reduce(parameter.grad)
    optimizer.step()
dist.barrier()
dist.destroy_process_group()
