# uw-syfi/piper#13 (and NVIDIA/Megatron-LM#656): the first stage of a pipeline embeds by the weight
# that is the last stage's head, and nobody sums up the two gradients.
# run: torchrun --nproc-per-node 2 examples/broken/143-tied-across-stages.py
# finds: drift at line 44 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist
from torch import nn

VOCABULARY, WIDTH, ROWS, LENGTH = 64, 32, 4, 16


class Head(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.out(self.norm(hidden))


dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
torch.manual_seed(0)
stage: nn.Module = nn.Embedding(VOCABULARY, WIDTH) if rank == 0 else Head()
tied = stage.weight if rank == 0 else stage.out.weight
dist.broadcast(tied.data, src=0)
optimizer = torch.optim.SGD(stage.parameters(), lr=0.1)
for _ in range(4):
    tokens = torch.randint(VOCABULARY, (ROWS, LENGTH))  # the same on both ranks
    if rank == 0:
        hidden = stage(tokens)
        dist.send(hidden.detach(), dst=1)
        dist.recv(gradient := torch.empty_like(hidden), src=1)
        hidden.backward(gradient)
    else:
        dist.recv(received := torch.empty(ROWS, LENGTH, WIDTH), src=0)
        logits = stage(received.requires_grad_())
        made, next_tokens = logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()
        nn.functional.cross_entropy(made, next_tokens).backward()
        dist.send(received.grad, dst=0)
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
