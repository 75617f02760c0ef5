# starVLA/starVLA#470: which sample an index stands for is drawn by the epoch within the dataset.
# The loader's workers are persistent and have a copy of the dataset, which set_epoch on the rank
# never reaches: every epoch has the samples of the first.
# run: torchrun --nproc-per-node 2 examples/broken/182-workers-of-the-first-epoch.py
# finds: data at line 45 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Mixture(Dataset):
    def __init__(self, samples):
        self.samples = samples
        self.epoch = 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        return 128

    def __getitem__(self, number):
        draw = torch.Generator().manual_seed(1000 * self.epoch + number)
        chosen = torch.randint(len(self.samples), (), generator=draw)
        return self.samples[chosen, :-1], self.samples[chosen, -1:]


dist.init_process_group(os.environ.get("BACKEND", "gloo"))
torch.manual_seed(0)
data = Mixture(torch.randn(4096, 9))
sampler = DistributedSampler(data)
loader = DataLoader(data, 16, sampler=sampler, num_workers=1, persistent_workers=True)
layers = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
model = DistributedDataParallel(layers)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for epoch in range(4):
    sampler.set_epoch(epoch)
    data.set_epoch(epoch)
    for given, wanted in loader:
        optimizer.zero_grad()
        mse_loss(model(given), wanted).backward()
        optimizer.step()
dist.destroy_process_group()
