# deepspeedai/DeepSpeed#3131: each stage of a pipeline goes through a dataset of its own that draws
# its samples at random. The first takes the inputs and the last the labels of a batch that has the
# same number alone: the stages have drawn other layers before, and the labels belong to other
# inputs.
# run: torchrun --nproc-per-node 2 examples/broken/175-stages-read-other-batches.py
# finds: data at line 36 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Dataset

WORDS, LENGTH, WIDTH, BATCH, MICRO_BATCHES = 32, 12, 64, 32, 4


class Cipher(Dataset):
    def __len__(self):
        return BATCH * 20

    def __getitem__(self, number):
        text = torch.randint(0, WORDS, (LENGTH,))
        return text, (text * 5 + 3) % WORDS


dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
torch.manual_seed(0)
stage = nn.Sequential(nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WIDTH), nn.GELU())
if rank == 1:
    stage = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WORDS))
optimizer = torch.optim.AdamW(stage.parameters(), lr=3e-3)
shape = BATCH // MICRO_BATCHES, LENGTH, WIDTH
for texts, labels in DataLoader(Cipher(), BATCH):
    sent = []
    for text, label in zip(texts.chunk(MICRO_BATCHES), labels.chunk(MICRO_BATCHES), strict=True):
        if rank == 0:
            sent.append(stage(text))
            dist.send(sent[-1].detach(), 1)
        else:
            hidden = torch.empty(shape)
            dist.recv(hidden, 0)
            sent.append(hidden.requires_grad_())
            loss = cross_entropy(stage(hidden).flatten(0, 1), label.flatten())
            (loss / MICRO_BATCHES).backward()
    for hidden in sent:
        gradient = torch.empty(shape) if rank == 0 else hidden.grad
        if rank == 0:
            dist.recv(gradient, 1)
            hidden.backward(gradient)
        else:
            dist.send(gradient, 0)
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
