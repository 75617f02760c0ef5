# The right twin of 12-generate-until-end-of-text.py: a rank that is done goes on as long as any
# other is not.
# run: torchrun --nproc-per-node 2 examples/broken/12-generate-until-end-of-text-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
mesh = init_device_mesh("cpu", (world,))
model = fully_shard(nn.Linear(64, 64), mesh=mesh, reshard_after_forward=True)
END = 9 if rank == 0 else 4  # where the text of this rank ends


def generate(state):
    tokens = []
    while True:
        state = model(state)
        if len(tokens) < END:
            tokens.append(state.argmax().item())
        done = torch.tensor(int(len(tokens) == END))
        dist.all_reduce(done, op=dist.ReduceOp.MIN)
        if done:
            return tokens


with torch.no_grad():
    text = generate(torch.randn(1, 64))
texts = [None] * world
dist.all_gather_object(texts, text)
if rank == 0:
    print([len(one) for one in texts])
assert [len(one) for one in texts] == [9, 4]
dist.barrier()
dist.destroy_process_group()
