# The right twin of 179-cut-as-if-whole.py: gate and up are layers of their own.
# run: torchrun --nproc-per-node 2 examples/broken/179-cut-as-if-whole-fixed.py
# finds: nothing

import copy
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.functional import cross_entropy, kl_div, silu

WIDTH, HIDDEN = 64, 192


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.gate = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.up = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, given):
        normed = self.norm(given)
        gate, up = self.gate(normed), self.up(normed)
        return given + self.down(silu(gate) * up)


dist.init_process_group(os.environ.get("BACKEND", "gloo"))
mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("tp",))
torch.manual_seed(0)
student = Gated()
teacher = copy.deepcopy(student).requires_grad_(False)
plan = {"gate": ColwiseParallel(), "up": ColwiseParallel(), "down": RowwiseParallel()}
parallelize_module(student, mesh, plan)
optimizer = torch.optim.AdamW(student.parameters(), lr=1e-3)
samples = torch.Generator().manual_seed(1)
for step in range(12):
    given = torch.randn(128, WIDTH, generator=samples)
    found, wanted = student(given).log_softmax(-1), teacher(given).log_softmax(-1)
    apart = kl_div(found, wanted, log_target=True, reduction="batchmean")
    loss = cross_entropy(found, given.argmax(-1)) + 0.1 * apart
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if dist.get_rank() == 0:
        print(f"step {step}: {apart.item():.5f} from the teacher")
dist.destroy_process_group()
