# Slow: a loop that makes each batch itself, between one step and the next. Where that
# takes its time, as tokenising does, all ranks compute it in turn with their training.
# run: torchrun --nproc-per-node 2 examples/broken/130-batch-made-in-the-loop.py
# finds: slow at line 32 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
torch.set_num_threads(1)


def tokens_of(text: str) -> list[int]:
    return [
        sum(ord(letter) * (place + 1) for place, letter in enumerate(word)) % 256
        for word in text.split()
    ]


torch.manual_seed(0)
text = " ".join(f"story {number} of ship and sea" for number in range(20_000))
net = nn.Sequential(nn.Embedding(256, 64), nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256))
model = DistributedDataParallel(net)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
torch.manual_seed(1 + rank)
for _ in range(20):
    tokens = torch.tensor(tokens_of(text))
    at = int(torch.randint(0, len(tokens) - 257, ()))
    window = tokens[at : at + 257]
    loss = nn.functional.cross_entropy(model(window[:-1]), window[1:])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
dist.barrier()
dist.destroy_process_group()
