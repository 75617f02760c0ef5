# The right twin of 76-order-of-a-set.py: the names are sorted.
# run: torchrun --nproc-per-node 2 examples/broken/76-order-of-a-set-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Attention(nn.Module):
    def __init__(self, kinds: list[str]) -> None:
        super().__init__()
        self.mixed = nn.Linear(16, 16)
        for kind in kinds:
            scale = 1.0 if kind == "full" else 0.1
            self.register_buffer(f"{kind}_table", scale * torch.ones(16))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        local, full = self.get_buffer("local_table"), self.get_buffer("full_table")
        return self.mixed(inputs * local) * full


dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
torch.manual_seed(0)
kinds = sorted({"local", "full"})
model = DistributedDataParallel(Attention(kinds))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    torch.manual_seed(2 * step + rank)
    loss = model(torch.randn(8, 16)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
