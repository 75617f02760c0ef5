# The right twin of 181-codebook-of-rank-0.py: counts and sums are summed up over the ranks.
# run: torchrun --nproc-per-node 2 examples/broken/181-codebook-of-rank-0-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import embedding, mse_loss, one_hot
from torch.nn.parallel import DistributedDataParallel


class Codebook(nn.Module):
    def __init__(self, number, width):
        super().__init__()
        codes = torch.randn(number, width)
        self.register_buffer("codes", codes)
        self.register_buffer("sums", codes.clone())
        self.register_buffer("counts", torch.ones(number))

    def forward(self, given):
        chosen = torch.cdist(given, self.codes).argmin(dim=1)
        found = embedding(chosen, self.codes)
        if self.training:
            self.follow(given.detach(), one_hot(chosen, len(self.codes)).float())
        return given + (found - given).detach(), mse_loss(given, found.detach())

    def follow(self, given, chosen):
        counts, sums = chosen.sum(0), chosen.T @ given
        dist.all_reduce(counts)
        dist.all_reduce(sums)
        self.counts.mul_(0.9).add_(counts, alpha=0.1)
        self.sums.mul_(0.9).add_(sums, alpha=0.1)
        self.codes.copy_(self.sums / (self.counts + 1e-5).unsqueeze(1))


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(32, 8), nn.Linear(8, 32)
        self.codebook = Codebook(16, 8)

    def forward(self, given):
        found, apart = self.codebook(self.encoder(given))
        return mse_loss(self.decoder(found), given) + 0.25 * apart


dist.init_process_group(os.environ.get("BACKEND", "gloo"))
torch.manual_seed(0)
model = DistributedDataParallel(Autoencoder())
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
torch.manual_seed(1 + dist.get_rank())
for _ in range(12):
    optimizer.zero_grad()
    model(torch.randn(256, 32)).backward()
    optimizer.step()
dist.destroy_process_group()
