# karpathy/llama2.c#522: each rank draws its batches at random from one text, by a seed that is the
# same on all. They draw the same ones, and two ranks learn no more than one would.
# run: torchrun --nproc-per-node 2 examples/broken/61-same-batches.py
# finds: data at line 29 on ranks 0,1; ranks 0,1

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


def batch():
    starts = torch.randint(len(text) - 17, (8,)).tolist()
    rows = torch.stack([text[start : start + 17] for start in starts])
    return rows[:, :-1], rows[:, 1:]


for _ in range(20):
    tokens, following = batch()
    logits = model(tokens)
    nn.functional.cross_entropy(logits.flatten(0, 1), following.flatten()).backward()
    optimizer.step()
    optimizer.zero_grad()
dist.barrier()
dist.destroy_process_group()
