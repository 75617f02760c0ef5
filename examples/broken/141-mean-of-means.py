# huggingface/transformers#34242: a loss averages over the tokens of its own rank, of which one rank
# has many more than the other.
# run: torchrun --nproc-per-node 2 examples/broken/141-mean-of-means.py
# finds: data at line 37 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

VOCABULARY, WIDTH, LONGEST, IGNORED = 50, 16, 64, -100


def padded(rank: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Two dialogues, where only the answer is to be learned, padded to one length."""
    tokens = torch.randint(VOCABULARY, (2, LONGEST))
    targets = tokens.roll(-1, 1)
    for row in targets:
        answer = int(torch.randint(4, 10, ())) if rank else int(torch.randint(30, 60, ()))
        row[answer:] = IGNORED
    return tokens, targets


dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
torch.manual_seed(rank)
layers = torch.nn.Embedding(VOCABULARY, WIDTH), torch.nn.Linear(WIDTH, VOCABULARY)
model = DistributedDataParallel(torch.nn.Sequential(*layers))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(6):
    tokens, targets = padded(rank)
    logits = model(tokens)
    loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
