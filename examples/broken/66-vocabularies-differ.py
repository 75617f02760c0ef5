# huggingface/transformers#16417: every rank counts the words of its own part of the text, and so
# has an embedding of its own size. DDP refuses the model on all ranks but the first, which goes on
# and waits for them.
# run: torchrun --nproc-per-node 2 examples/broken/66-vocabularies-differ.py
# finds: mismatch at line 18 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
texts = ["the cat sat on the mat", "a dog and a cat"]
words = sorted(set(texts[rank].split()))
model = DistributedDataParallel(nn.Sequential(nn.Embedding(len(words), 8), nn.Linear(8, 2)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batch = torch.tensor([words.index(word) for word in texts[rank].split()])
for _ in range(3):
    model(batch).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
