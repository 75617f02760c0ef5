# Silent: fully_shard is called on the blocks and not on the whole model. What is left over,
# embedding and head, is no shard, and nobody reduces its gradients.
# run: torchrun --nproc-per-node 2 examples/broken/114-root-not-sharded.py
# finds: drift at line 40 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(64, 96)
        self.blocks = nn.ModuleList(nn.Linear(96, 96) for _ in range(4))
        self.head = nn.Linear(96, 64)

    def forward(self, tokens):
        hidden = self.embedding(tokens)
        for block in self.blocks:
            hidden = hidden + torch.relu(block(hidden))
        return self.head(hidden)


dist.init_process_group(os.environ.get("BACKEND", "gloo"))
torch.set_num_threads(1)
torch.manual_seed(0)
model = Model()
for block in model.blocks:
    fully_shard(block)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)
torch.manual_seed(1 + dist.get_rank())
for _ in range(10):
    tokens = torch.randint(0, 64, (8, 17))
    logits = model(tokens[:, :-1])
    nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).backward()
    optimizer.step()
    optimizer.zero_grad()
dist.barrier()
dist.destroy_process_group()
