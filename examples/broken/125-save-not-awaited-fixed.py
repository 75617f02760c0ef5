# 125-save-not-awaited, corrected: the save is waited for.
# run: torchrun --nproc-per-node 2 examples/broken/125-save-not-awaited-fixed.py
# finds: nothing

import os
import shutil
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import checkpoint
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
torch.set_num_threads(1)
side = dist.new_group(backend="gloo")
folder = [tempfile.mkdtemp() if rank == 0 else ""]
dist.broadcast_object_list(folder)
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 1280), nn.ReLU(), nn.Linear(1280, 10))
fully_shard(model, mesh=init_device_mesh("cpu", (world,)))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
torch.manual_seed(1 + rank)
for _ in range(6):
    images, labels = torch.randn(16, 64), torch.randint(0, 10, (16,))
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(images), labels).backward()
    optimizer.step()
state = model.state_dict()
saving = checkpoint.async_save(state, checkpoint_id=folder[0], process_group=side)
saving.result()
dist.destroy_process_group()
if rank == 0:
    shutil.rmtree(folder[0], ignore_errors=True)
