# slow though right: pytorch/examples#461: every rank evaluates the whole of the held-out data, as
# the example for ImageNet did for years. All come to the same number, which one of them or a part
# on each would have given.
# run: torchrun --nproc-per-node 2 examples/broken/90-evaluated-by-all.py
# finds: slow at line 33 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
torch.set_num_threads(1)
torch.manual_seed(0)
held_out = TensorDataset(torch.randn(8192, 256), torch.randint(10, (8192,)))
batches = DataLoader(held_out, batch_size=64)
model = DistributedDataParallel(nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 10)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(1 + dist.get_rank())
for _ in range(6):
    model.train()
    for _ in range(4):
        optimizer.zero_grad()
        model(torch.randn(16, 256)).square().mean().backward()
        optimizer.step()
    model.eval()
    right = torch.zeros(1)
    with torch.no_grad():
        for batch, label in batches:
            right += (model(batch).argmax(1) == label).sum()
dist.destroy_process_group()
