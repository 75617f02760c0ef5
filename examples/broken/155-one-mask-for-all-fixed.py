# 155-one-mask-for-all, corrected: each rank seeds its dropout apart, once the model is made.
# run: torchrun --nproc-per-node 2 examples/broken/155-one-mask-for-all-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
torch.set_num_threads(1)
torch.manual_seed(0)
data = TensorDataset(torch.randn(256, 64), torch.randint(0, 10, (256,)))
loader = DataLoader(data, batch_size=16, sampler=DistributedSampler(data))
layers = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, 10))
model = DistributedDataParallel(layers)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
torch.manual_seed(1 + dist.get_rank())
for images, labels in loader:
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
