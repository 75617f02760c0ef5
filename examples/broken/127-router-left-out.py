# Silent: each rank has an expert of its own, and what all have beside it is reduced, but for the
# router. The ranks send their tokens by other routers soon.
# run: torchrun --nproc-per-node 2 examples/broken/127-router-left-out.py
# finds: drift at line 46 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
torch.set_num_threads(1)


class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(_, given: torch.Tensor) -> torch.Tensor:
        got = torch.empty_like(given)
        dist.all_to_all_single(got, given.contiguous())
        return got

    @staticmethod
    def backward(_, gradient: torch.Tensor) -> torch.Tensor:
        return Exchange.forward(_, gradient)


torch.manual_seed(0)
first, router, last = nn.Linear(64, 32), nn.Linear(32, world), nn.Linear(32, 10)
torch.manual_seed(1 + rank)
expert = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32))
parts = nn.ModuleList([first, router, last, expert])
optimizer = torch.optim.AdamW(parts.parameters(), lr=1e-3)
for _ in range(12):
    images, labels = torch.randn(16, 64), torch.randint(0, 10, (16,))
    hidden = first(images)
    shares = router(hidden).softmax(1)
    sent = torch.stack([hidden * shares[:, one : one + 1] for one in range(world)])
    got = Exchange.apply(expert(Exchange.apply(sent))).sum(0)
    optimizer.zero_grad()
    (nn.functional.cross_entropy(last(hidden + got), labels) / world).backward()
    for part in (first, last):
        for parameter in part.parameters():
            dist.all_reduce(parameter.grad)
    optimizer.step()
dist.barrier()
dist.destroy_process_group()
