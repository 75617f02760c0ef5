# karpathy/nanoGPT PR #151, slow though right: each layer has its causal mask as a buffer, and
# DistributedDataParallel sends all buffers from rank 0 before each forward.
# run: torchrun --nproc-per-node 2 examples/broken/132-mask-sent-each-step.py
# finds: slow at line 45 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

CONTEXT, WIDTH = 1024, 64


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.register_buffer("mask", torch.ones(CONTEXT, CONTEXT).triu(1) * -1e9)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        length = x.shape[1]
        scores = q @ k.transpose(-2, -1) / WIDTH**0.5 + self.mask[:length, :length]
        return x + self.out(scores.softmax(-1) @ v)


def main():
    rank = dist.get_rank()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(*(Attention() for _ in range(4))))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    torch.manual_seed(1 + rank)
    for _ in range(16):
        optimizer.zero_grad()
        train(model, torch.randn(2, 128, WIDTH))
        optimizer.step()
    dist.barrier()
    dist.destroy_process_group()


def train(model, batch):
    model(batch).square().mean().backward()


dist.init_process_group(os.environ.get("BACKEND", "gloo"))
main()
