# pytorch/examples 77f55b9, minGPT-ddp: each rank splits the data by a seed of its own, and holds
# back other samples than the rest do. What one validates on the others train on.
# run: torchrun --nproc-per-node 2 examples/broken/112-split-by-chance.py
# finds: data at line 27 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset, random_split

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
torch.set_num_threads(1)
torch.manual_seed(0)
images = torch.randint(0, 256, (640, 64), dtype=torch.uint8)
labels = torch.randint(0, 10, (640,))
torch.manual_seed(1 + dist.get_rank())
data = TensorDataset(images, labels)
trained, held_back = random_split(data, [512, 128])
model = DistributedDataParallel(nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.0001)
sampler = DistributedSampler(trained)
for epoch in range(2):
    sampler.set_epoch(epoch)
    for batch, wanted in DataLoader(trained, batch_size=16, sampler=sampler, drop_last=True):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(batch.float()), wanted).backward()
        optimizer.step()
dist.barrier()
dist.destroy_process_group()
