# Every argument is named, as some styles have it: of PyTorch's functions, of collectives.
# run: torchrun --nproc-per-node 2 examples/good/by_name.py
# finds: nothing

import os
import shutil
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group(backend=os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(group=None), dist.get_world_size(group=None)
others = dist.new_group(ranks=[0, 1])
folder = [tempfile.mkdtemp(prefix="by_name") if rank == 0 else None]
dist.broadcast_object_list(object_list=folder, src=0)
path = Path(folder[0]) / "model.pt"

torch.manual_seed(seed=0)
data = TensorDataset(torch.randn(size=(4096, 64)), torch.randn(size=(4096, 8)))
sampler = DistributedSampler(dataset=data, num_replicas=world, rank=rank, seed=1)
loader = DataLoader(dataset=data, batch_size=256, sampler=sampler)
first, last = nn.Linear(in_features=64, out_features=64), nn.Linear(in_features=64, out_features=8)
model = nn.Sequential(first, nn.ReLU(inplace=False), last)
model.load_state_dict(state_dict=model.state_dict(), strict=False)
replica = DistributedDataParallel(module=model, process_group=others)
first.weight.register_hook(hook=lambda gradient: gradient.clamp(min=-1.0, max=1.0))
optimizer = torch.optim.AdamW(params=replica.parameters(), lr=1e-3)
torch.manual_seed(seed=rank)

for inputs, targets in loader:
    optimizer.zero_grad(set_to_none=True)
    hidden = functional.dropout(input=inputs, p=0.1, training=True)
    found = checkpoint(function=replica, input=hidden, use_reentrant=False)
    loss = functional.mse_loss(input=found, target=targets)
    torch.autograd.backward(tensors=loss)
    torch.nn.utils.clip_grad_norm_(parameters=replica.parameters(), max_norm=1.0)
    optimizer.step(closure=None)

mean = torch.stack(tensors=[loss.detach()])
dist.all_reduce(tensor=mean, op=dist.ReduceOp.AVG, group=others)
gathered = [torch.empty_like(input=mean) for _ in range(world)]
dist.all_gather(tensor_list=gathered, tensor=mean)
named = [None] * world
dist.all_gather_object(object_list=named, obj=rank)
if rank == 0:
    torch.save(obj=model.state_dict(), f=path)
dist.barrier(group=others)
model.load_state_dict(state_dict=torch.load(f=path, map_location="cpu", weights_only=True))
dist.barrier(group=None)
if rank == 0:
    path.unlink(missing_ok=False)
    shutil.rmtree(path=folder[0], ignore_errors=True)
dist.destroy_process_group(group=None)
