# Silent: gradients are divided by the number of ranks and summed up, in a tensor of their own that
# nobody gives back. Each rank steps by the gradients of its own batches.
# run: torchrun --nproc-per-node 2 examples/broken/154-mean-in-a-tensor-of-its-own.py
# finds: drift at line 30 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
torch.set_num_threads(1)
torch.manual_seed(0)
data = TensorDataset(torch.randn(256, 64), torch.randint(0, 10, (256,)))
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=16, sampler=sampler)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(4):
    sampler.set_epoch(epoch)
    for images, labels in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        for parameter in model.parameters():
            mean = parameter.grad / dist.get_world_size()
            dist.all_reduce(mean)
        optimizer.step()
    if dist.get_rank() == 0:
        print(f"epoch {epoch}: {loss.item():.3f}")
dist.barrier()
dist.destroy_process_group()
