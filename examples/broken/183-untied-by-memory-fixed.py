# The right twin of 183-untied-by-memory.py: the head is tied again once both have memory.
# run: torchrun --nproc-per-node 2 examples/broken/183-untied-by-memory-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.functional import cross_entropy

WORDS, WIDTH, LENGTH = 64, 32, 16


class Language(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.layer = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.GELU())
        self.head = nn.Linear(WIDTH, WORDS, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, words):
        hidden = self.embedding(words)
        return self.head(hidden + self.layer(hidden))


dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(1)
checkpoint = Language().state_dict() if rank == 0 else {}
with torch.device("meta"):
    model = Language()
model.to_empty(device="cpu")
model.head.weight = model.embedding.weight
mesh = init_device_mesh("cpu", (world,))
fully_shard(model.layer, mesh=mesh)
fully_shard(model, mesh=mesh)
options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
set_model_state_dict(model, checkpoint, options=options)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
draw = torch.Generator().manual_seed(2 + rank)
for _ in range(8):
    text = torch.randint(WORDS, (32, LENGTH + 1), generator=draw).sort(dim=1).values
    logits = model(text[:, :-1])
    cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten()).backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
