# An optimizer that reduces by futures, as nanochat's Muon does: all gradients are on their way
# before the first is waited for, and their handles are gone by then.
# run: torchrun --nproc-per-node 2 examples/good/futures.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.futures import collect_all

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 8))
matrices = [parameter for parameter in model.parameters() if parameter.ndim == 2]
vectors = [parameter for parameter in model.parameters() if parameter.ndim == 1]


class Reducing(torch.optim.SGD):
    @torch.no_grad()
    def step(self):
        of_matrices = [reduced(parameter.grad) for parameter in matrices]
        of_vectors = collect_all([reduced(parameter.grad) for parameter in vectors])
        for parameter, future in zip(matrices, of_matrices, strict=True):
            future.wait()
            parameter.grad /= dist.get_world_size()
        of_vectors.wait()
        for parameter in vectors:
            parameter.grad /= dist.get_world_size()
        super().step()


def reduced(gradient):
    return dist.all_reduce(gradient, async_op=True).get_future()


optimizer = Reducing(model.parameters(), 1e-2)
torch.manual_seed(dist.get_rank())
for _ in range(8):
    optimizer.zero_grad()
    model(torch.randn(16, 32)).square().mean().backward()
    optimizer.step()
dist.destroy_process_group()
