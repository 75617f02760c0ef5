# The right twin of 176-thrown-away.py: the discriminator's parameters take no gradient while the
# generator trains.
# run: torchrun --nproc-per-node 2 examples/broken/176-thrown-away-fixed.py
# finds: nothing

import os
from itertools import pairwise

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import softplus
from torch.nn.parallel import DistributedDataParallel

LATENT, PIXELS, BATCH = 32, 256, 16
dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
torch.manual_seed(0)


def layers(*widths):
    made = []
    for before, after in pairwise(widths):
        made += [nn.Linear(before, after), nn.LeakyReLU(0.2)]
    return DistributedDataParallel(nn.Sequential(*made[:-1]))


generator = layers(LATENT, 128, 128, PIXELS)
discriminator = layers(PIXELS, 2048, 2048, 2048, 1)
of_generator = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.9))
of_discriminator = torch.optim.SGD(discriminator.parameters(), lr=1e-2)
torch.manual_seed(100 + rank)
for step in range(16):
    with torch.no_grad():
        made = generator(torch.randn(BATCH, LATENT))
    real = torch.rand(BATCH, PIXELS) * 2 - 1
    of_discriminator.zero_grad()
    scores = discriminator(torch.cat([real, made]))
    (softplus(-scores[:BATCH]).mean() + softplus(scores[BATCH:]).mean()).backward()
    of_discriminator.step()

    of_generator.zero_grad()
    discriminator.requires_grad_(False)
    scores = discriminator(generator(torch.randn(BATCH, LATENT)))
    softplus(-scores).mean().backward()
    discriminator.requires_grad_(True)
    of_generator.step()
    if rank == 0:
        print(f"step {step}: {scores.mean().item():.4f}")
dist.destroy_process_group()
