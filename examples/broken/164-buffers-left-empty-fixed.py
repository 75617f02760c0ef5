# 164-buffers-left-empty, corrected: the other rank makes its frequencies anew.
# run: torchrun --nproc-per-node 2 examples/broken/164-buffers-left-empty-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict
from torch.distributed.fsdp import fully_shard


class Turned(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(16, 32), nn.Linear(32, 8)
        self.register_buffer("frequencies", self.made(), persistent=False)

    def made(self) -> torch.Tensor:
        return 1 / 100 ** (torch.arange(0, 32, device="cpu") / 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        angles = torch.arange(x.shape[1])[:, None] * self.frequencies
        return self.last(self.first(x) * angles.cos())


dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
torch.manual_seed(0)
model = Turned()
weights = model.state_dict()
if rank == 1:
    model = model.to("meta").to_empty(device="cpu")
    model.frequencies.copy_(model.made())
fully_shard(model)
set_model_state_dict(model, weights, options=StateDictOptions(full_state_dict=True))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
torch.manual_seed(1 + rank)
for _ in range(6):
    x, labels = torch.randn(4, 10, 16), torch.randint(0, 8, (40,))
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x).flatten(0, 1), labels).backward()
    optimizer.step()
dist.destroy_process_group()
