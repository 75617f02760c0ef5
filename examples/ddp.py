"""Any DDP training, which knows nothing of steptime: steptime record --ranks 2 examples/ddp.py."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

WIDTH, STEPS, ROWS = 512, 20, 64


def main() -> None:
    """Train a few layers on noise for some steps, and sum up the loss over all ranks."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    layers = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU()) for _ in range(8)]
    model = DistributedDataParallel(nn.Sequential(*layers), bucket_cap_mb=2)
    optimizer = torch.optim.AdamW(model.parameters())
    batches = DataLoader(TensorDataset(torch.randn(STEPS * ROWS, WIDTH)), batch_size=ROWS)
    for (batch,) in batches:
        loss = (model(batch) - batch).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        whole = loss.detach()
        dist.all_reduce(whole)
    if dist.get_rank() == 0:
        print(f"loss {whole.item() / dist.get_world_size():.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
