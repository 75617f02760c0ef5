# The right twin of 66-vocabularies-differ.py: the ranks put their words together before they build
# the model.
# run: torchrun --nproc-per-node 2 examples/broken/66-vocabularies-differ-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
texts = ["the cat sat on the mat", "a dog and a cat"]
lists: list[list[str] | None] = [None, None]
dist.all_gather_object(lists, texts[rank].split())
words = sorted({word for one in lists if one for word in one})
model = DistributedDataParallel(nn.Sequential(nn.Embedding(len(words), 8), nn.Linear(8, 2)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batch = torch.tensor([words.index(word) for word in texts[rank].split()])
for _ in range(3):
    model(batch).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
