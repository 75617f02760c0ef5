# Sparse gradients of embeddings, reduced by DDP and by hand, beside layers that learn their sizes
# from the first batch.
# run: torchrun --nproc-per-node 2 examples/good/sparse.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20_000, 32, sparse=True)
        self.layers = nn.Sequential(nn.LazyLinear(256), nn.ReLU(), nn.LazyLinear(8))

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.layers(self.embedding(words).mean(1))


words = Words()
words(torch.zeros(1, 12, dtype=torch.int64))  # the lazy layers are made
model = DistributedDataParallel(words)
optimizers = [
    torch.optim.SparseAdam(words.embedding.parameters(), lr=1e-3),
    torch.optim.AdamW(words.layers.parameters(), lr=1e-3),
]
bags = nn.EmbeddingBag(5_000, 16, sparse=True)
by_hand = torch.optim.SGD(bags.parameters(), lr=0.1)

torch.manual_seed(1 + rank)
for _ in range(8):
    inputs, labels = torch.randint(0, 20_000, (512, 12)), torch.randint(0, 8, (512,))
    for one in optimizers:
        one.zero_grad()
    cross_entropy(model(inputs), labels).backward()
    nn.utils.clip_grad_norm_(words.layers.parameters(), 1.0)
    for one in optimizers:
        one.step()

for _ in range(8):
    by_hand.zero_grad()
    bags(torch.randint(0, 5_000, (256, 12))).square().mean().backward()
    gradient = bags.weight.grad.coalesce()
    dist.all_reduce(gradient)
    bags.weight.grad = gradient / world
    by_hand.step()
dist.destroy_process_group()
