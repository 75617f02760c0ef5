# The right twin of 45-tags-differ.py: the tag is that of the message.
# run: torchrun --nproc-per-node 2 examples/broken/45-tags-differ-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist

WEIGHTS, BIAS, STOP = 1, 2, 3
dist.init_process_group(os.environ.get("BACKEND", "gloo"))
weights, bias = torch.ones(100), torch.ones(10)
if dist.get_rank() == 0:
    dist.send(weights, 1, tag=WEIGHTS)
    dist.send(bias, 1, tag=BIAS)
else:
    dist.recv(weights, 0, tag=WEIGHTS)
    dist.recv(bias, 0, tag=BIAS)
dist.barrier()
dist.destroy_process_group()
