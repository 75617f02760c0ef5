"""Gradients that are reduced in every micro-batch, and what tensor-parallel ranks reduce, too."""

from pathlib import Path

import pytest

from observed_scripts import findings_of, marked
from steptime.check.finding import Finding

SHARED = """
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel, RowwiseParallel, SequenceParallel, parallelize_module
)
how = {how!r}
sizes, names = ((2, 2), ("data", "tensor")) if how == "both" else ((2,), ("tensor",))
mesh = init_device_mesh("cpu", sizes, mesh_dim_names=names)
torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(128)
        self.up, self.down = nn.Linear(128, 512), nn.Linear(512, 128)

    def forward(self, x):
        return x + self.down(self.up(self.norm(x)).relu())


layers = nn.Sequential(*(Block() for _ in range(3)))
tokens = 64
for block in layers if how != "shards" else ():
    plan = dict(up=ColwiseParallel(), down=RowwiseParallel())
    if how == "tokens":
        tokens = 32
        plan = dict(
            norm=SequenceParallel(),
            up=ColwiseParallel(input_layouts=Shard(1)),
            down=RowwiseParallel(output_layouts=Shard(1)),
        )
    parallelize_module(block, mesh["tensor"], plan)
for block in layers if how in ("shards", "both") else ():
    fully_shard(block, mesh=mesh["data"] if how == "both" else mesh)
optimizer = torch.optim.SGD(layers.parameters(), lr=0.01)
for step in range(6):
    for part in range(4):
        layers(torch.randn(2, tokens, 128)).square().mean().backward()  # accumulates
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.slow
def test_shards_that_are_reduced_in_every_micro_batch_are_told(tmp_path: Path) -> None:
    (told,) = _accumulated(findings_of(tmp_path, SHARED.format(how="shards")))
    assert marked(told) == {"accumulates"}
    assert "FSDP reduces all gradients in each of the 4 backwards" in told.what
    # Three blocks: 128 by 512 weights twice, as many biases, and those of a norm, in float32.
    assert 3 * 4 * (2 * 128 * 512 + 128 + 512 + 2 * 128) == 1_583_616
    assert "keeps whole gradients until the last, 1.58 MB here" in told.mend


@pytest.mark.slow
@pytest.mark.parametrize("how", ["tensors", "tokens"])
def test_activations_that_ranks_reduce_are_no_gradients(how: str, tmp_path: Path) -> None:
    assert _accumulated(findings_of(tmp_path, SHARED.format(how=how))) == []


@pytest.mark.slow
def test_shards_of_tensor_parallel_ranks_are_told_of_apart(tmp_path: Path) -> None:
    for told in _accumulated(findings_of(tmp_path, SHARED.format(how="both"), 4)):
        assert "FSDP" in told.what
        assert " kB here" in told.mend  # the half of a rank


def _accumulated(found: list[Finding]) -> list[Finding]:
    return [one for one in found if "reduces all gradients" in one.what]
