# mlfoundations/open_clip#616, OFA-Sys/Chinese-CLIP#54: a contrastive loss takes the features of all
# ranks as dist.all_gather gives them, which have no gradient. Nothing fails, since a rank's own
# features have one, and half of what should be learned is not.
# run: torchrun --nproc-per-node 2 examples/broken/84-features-without-gradient.py
# finds: drift at line 37 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Towers(nn.Module):
    def __init__(self):
        super().__init__()
        self.image, self.text = nn.Linear(32, 64), nn.Linear(24, 64)

    def forward(self, image, text):
        return self.image(image), self.text(text)


def of_all_ranks(features):
    gathered = [torch.empty_like(features) for _ in range(dist.get_world_size())]
    dist.all_gather(gathered, features)
    return torch.cat(gathered)


dist.init_process_group(os.environ.get("BACKEND", "gloo"))
torch.manual_seed(dist.get_rank())
model = DistributedDataParallel(Towers())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
pairs = torch.arange(8) + 8 * dist.get_rank()
for _ in range(6):
    image, text = model(torch.randn(8, 32), torch.randn(8, 24))
    to_text, to_image = image @ of_all_ranks(text).T, text @ of_all_ranks(image).T
    entropy = nn.functional.cross_entropy
    loss = entropy(to_text, pairs) + entropy(to_image, pairs)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
