# pytorch/pytorch#122903: the full state of a sharded model is asked for on rank 0 alone, which is
# to save it. The gathering behind it needs all ranks; the other one is at the barrier.
# run: torchrun --nproc-per-node 2 examples/broken/28-state-dict-on-rank-0.py
# finds: mismatch at line 26 on rank 0, line 28 on rank 1; ranks 0,1

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = fully_shard(nn.Linear(64, 64), mesh=init_device_mesh("cpu", (world,)))
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    model(torch.randn(8, 64)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
options = StateDictOptions(full_state_dict=True, cpu_offload=True)
if rank == 0:
    state = get_model_state_dict(model, options=options)
    print({name: tuple(one.shape) for name, one in state.items()})
dist.barrier()
dist.destroy_process_group()
