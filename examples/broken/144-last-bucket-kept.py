# Silent: hooks collect gradients into buckets, which are summed up as they fill in the backward.
# The last one never fills, and each rank steps by gradients of its own for the first layer.
# run: torchrun --nproc-per-node 2 examples/broken/144-last-bucket-kept.py
# finds: drift at line 54 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist
from torch import nn

WIDTH, LAYERS, IN_A_BUCKET = 32, 5, 4


class Buckets:
    """Sums up the gradients of a model, several at a time, while its backward goes on."""

    def __init__(self, model: nn.Module) -> None:
        self.filling: list[nn.Parameter] = []
        self.sent: list[tuple[list[nn.Parameter], torch.Tensor, dist.Work]] = []
        for parameter in model.parameters():
            parameter.register_post_accumulate_grad_hook(self.ready)

    def ready(self, parameter: nn.Parameter) -> None:
        self.filling.append(parameter)
        if len(self.filling) == IN_A_BUCKET:
            self.send()

    def send(self) -> None:
        flat = torch.cat([one.grad.flatten() for one in self.filling])
        self.sent.append((self.filling, flat, dist.all_reduce(flat, async_op=True)))
        self.filling = []

    def wait(self) -> None:
        for parameters, flat, work in self.sent:
            work.wait()
            parts = (flat / dist.get_world_size()).split([one.numel() for one in parameters])
            for one, part in zip(parameters, parts, strict=True):
                one.grad.copy_(part.view_as(one))
        self.filling, self.sent = [], []


dist.init_process_group(os.environ.get("BACKEND", "gloo"))
torch.manual_seed(0)
model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)))
buckets = Buckets(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
torch.manual_seed(1 + dist.get_rank())
for _ in range(4):
    rows = torch.randn(8, WIDTH)
    optimizer.zero_grad()
    (model(rows) - rows).square().mean().backward()
    buckets.wait()
    optimizer.step()
dist.destroy_process_group()
