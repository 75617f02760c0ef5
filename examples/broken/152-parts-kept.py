# ZeRO-1 of dudeperf3ct/llm-parallelism-pytorch without its last line: each rank's optimizer updates
# a part of the model, and nobody sends the others what it has become.
# run: torchrun --nproc-per-node 2 examples/broken/152-parts-kept.py
# finds: drift at line 24 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = nn.Sequential(*(nn.Linear(64, 64) for _ in range(6)))
parameters = list(model.parameters())
optimizer = torch.optim.Adam(parameters[rank::world], lr=1e-3)  # ZeRO's first stage
torch.manual_seed(1 + rank)
for _ in range(12):
    loss = model(torch.randn(16, 64)).square().mean()
    loss.backward()
    dist.all_reduce(whole := nn.utils.parameters_to_vector([one.grad for one in parameters]))
    nn.utils.vector_to_parameters(whole / world, [one.grad for one in parameters])
    optimizer.step()
    model.zero_grad()
dist.destroy_process_group()
