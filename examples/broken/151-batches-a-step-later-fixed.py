# 151-batches-a-step-later, corrected: no two seeds are the same, in whichever steps.
# run: torchrun --nproc-per-node 2 examples/broken/151-batches-a-step-later-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
torch.manual_seed(1337)
text = torch.arange(4096) % 61
model = DistributedDataParallel(nn.Sequential(nn.Embedding(64, 32), nn.Linear(32, 64)))
optimizer = torch.optim.AdamW(model.parameters())
for step in range(20):
    torch.manual_seed(step * dist.get_world_size() + rank)
    starts = torch.randint(len(text) - 17, (8,)).tolist()
    rows = torch.stack([text[start : start + 17] for start in starts])
    tokens, following = rows[:, :-1], rows[:, 1:]
    logits = model(tokens)
    nn.functional.cross_entropy(logits.flatten(0, 1), following.flatten()).backward()
    optimizer.step()
    optimizer.zero_grad()
dist.barrier()
dist.destroy_process_group()
