# Robbyant/lingbot-vla-v2#41: all ranks set the same seed, and so they draw the same noise and the
# same time steps for images of their own.
# run: torchrun --nproc-per-node 2 examples/broken/142-one-noise-for-all.py
# finds: data at line 40 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

SIDE, TIMES = 32, 1000


class Denoiser(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.times = nn.Embedding(TIMES, SIDE)
        self.body = nn.Sequential(nn.Linear(2 * SIDE, 64), nn.SiLU(), nn.Linear(64, SIDE))

    def forward(self, noisy: torch.Tensor, times: torch.Tensor) -> torch.Tensor:
        return self.body(torch.cat([noisy, self.times(times)], 1))


dist.init_process_group(os.environ.get("BACKEND", "gloo"))
torch.manual_seed(42)
model = DistributedDataParallel(Denoiser())
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
dataset = TensorDataset(torch.randn(96, SIDE))
sampler = DistributedSampler(dataset)
for epoch in range(2):
    sampler.set_epoch(epoch)
    for (images,) in DataLoader(dataset, batch_size=8, sampler=sampler):
        noise = torch.randn_like(images)
        times = torch.randint(TIMES, (len(images),))
        kept = (1 - times / TIMES).unsqueeze(1)
        noisy = kept.sqrt() * images + (1 - kept).sqrt() * noise
        loss = nn.functional.mse_loss(model(noisy, times), noise)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
dist.destroy_process_group()
