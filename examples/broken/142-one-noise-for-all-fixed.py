# 142-one-noise-for-all, corrected: once the model is made each rank draws by a seed of its own.
# run: torchrun --nproc-per-node 2 examples/broken/142-one-noise-for-all-fixed.py
# finds: nothing

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
torch.manual_seed(42 + dist.get_rank())
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
