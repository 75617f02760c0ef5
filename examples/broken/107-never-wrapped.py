# Silent: the data are split among the ranks, the model is never wrapped in DDP. Each rank trains a
# model of its own on its part, and the mean of the losses looks as it should.
# run: torchrun --nproc-per-node 2 examples/broken/107-never-wrapped.py
# finds: drift at line 28 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
torch.set_num_threads(1)
torch.manual_seed(0)
data = TensorDataset(torch.randn(512, 64), torch.randint(0, 10, (512,)))
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=16, sampler=sampler)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)
for epoch in range(2):
    sampler.set_epoch(epoch)
    total = torch.zeros(1)
    for images, labels in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        total += loss.detach()
    dist.all_reduce(total)
    if dist.get_rank() == 0:
        print(f"epoch {epoch}: {total.item() / len(loader) / dist.get_world_size():.3f}")
dist.barrier()
dist.destroy_process_group()
