# pytorch/pytorch PR #84881 (also allenai/OLMo PR #234): ranks share a checkpoint, which rank 0
# removes when it has read it itself. Nothing makes it wait for who is slower.
# run: torchrun --nproc-per-node 2 examples/broken/81-removed-before-loaded.py
# finds: race at line 29 on rank 1, line 31 on rank 0; ranks 1

import os
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
model = DistributedDataParallel(nn.Linear(64, 64))
names = [tempfile.mkdtemp() if rank == 0 else ""]
dist.broadcast_object_list(names)
checkpoint = Path(names[0]) / "model.pt"
for _ in range(3):
    model(torch.randn(8, 64)).square().mean().backward()
if rank == 0:
    torch.save(model.state_dict(), checkpoint)
dist.barrier()
if rank == 1:
    time.sleep(0.3)  # it is on a slower disk
model.load_state_dict(torch.load(checkpoint))
if rank == 0:
    checkpoint.unlink()
    checkpoint.parent.rmdir()
dist.barrier()
dist.destroy_process_group()
