# A small transformer sharded by FSDP2, with accumulation, clipping and a checkpoint of rank 0.
# run: torchrun --nproc-per-node 2 examples/good/fsdp2.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
mesh = init_device_mesh("cpu", (world,))
torch.manual_seed(0)
layers = [nn.TransformerEncoderLayer(128, 4, 256, dropout=0.0, batch_first=True) for _ in range(3)]
model = nn.Sequential(*layers, nn.Linear(128, 128))
for layer in model:
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
torch.manual_seed(1 + rank)
batches = torch.randn(2, 8, 16, 128)
losses = []
for _ in range(10):
    for micro, batch in enumerate(batches):
        model.set_requires_gradient_sync(micro == len(batches) - 1)
        loss = (model(batch) - batch).square().mean() / len(batches)
        loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    losses.append(loss.detach())
mean = torch.stack(losses)
dist.all_reduce(mean, op=dist.ReduceOp.AVG if dist.get_backend() == "nccl" else dist.ReduceOp.SUM)
state = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
if rank == 0:
    print(f"loss {mean[0]:.3f} to {mean[-1]:.3f}, {len(state)} tensors saved")
    assert state["3.weight"].shape == (128, 128)
assert mean[-1] < mean[0]
dist.barrier()
dist.destroy_process_group()
