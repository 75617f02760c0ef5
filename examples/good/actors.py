# One rank learns of whoever is ready: it receives from any rank and sends the parameters back. The
# others act, and say at last that they are done.
# run: torchrun --nproc-per-node 4 examples/good/actors.py
# finds: nothing

import os
import time

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
policy = nn.Linear(8, 4)


def learn():
    optimizer = torch.optim.Adam(policy.parameters(), 1e-2)
    acting = world - 1
    while acting:
        message = torch.empty(33)
        source = dist.recv(message)
        if message[0] < 0:
            acting -= 1
            continue
        optimizer.zero_grad()
        policy(message[1:].view(4, 8)).square().mean().backward()
        optimizer.step()
        dist.send(nn.utils.parameters_to_vector(policy.parameters()).detach(), source)


def act():
    torch.manual_seed(rank)
    for _ in range(15):
        time.sleep(torch.rand(1).item() / 50)
        dist.send(torch.cat([torch.ones(1), torch.randn(32)]), 0)
        parameters = torch.empty(36)
        dist.recv(parameters, 0)
        nn.utils.vector_to_parameters(parameters, policy.parameters())
    dist.send(-torch.ones(33), 0)


act() if rank else learn()
dist.barrier()
dist.destroy_process_group()
