# lodestone-rock/RamTorch#13: hooks that are made in a loop look up whom to send a gradient to when
# they run, which is the owner of the last parameter. The other rank steps by its own gradients.
# run: torchrun --nproc-per-node 2 examples/broken/159-hooks-of-a-loop.py
# finds: drift at line 30 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
torch.set_num_threads(1)
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = nn.Sequential(
    nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)
)
parameters = list(model.parameters())
for number, parameter in enumerate(parameters):
    owner = number % ranks
    hook = lambda one: dist.reduce(one.grad, dst=owner)  # noqa: B023, E731
    parameter.register_post_accumulate_grad_hook(hook)
optimizer = torch.optim.SGD(parameters[rank::ranks], lr=0.05)
torch.manual_seed(1 + rank)
for _ in range(8):
    model.zero_grad()
    loss = nn.functional.cross_entropy(model(torch.randn(16, 64)), torch.randint(0, 10, (16,)))
    loss.backward()
    optimizer.step()
    for number, parameter in enumerate(parameters):
        dist.broadcast(parameter.data, src=number % ranks)
dist.destroy_process_group()
