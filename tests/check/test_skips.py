"""Steps that a GradScaler skips on one rank of several that train one model."""

from pathlib import Path

import pytest

from observed_scripts import findings_of, marked
from steptime.check.finding import FindingKind

STAGES = """
from torch import nn
way = {way!r}
torch.manual_seed(rank)
stage = nn.Linear(8, 8)
optimizer = torch.optim.SGD(stage.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
scaler.scale(torch.zeros(()))
for step in range(6):
    optimizer.zero_grad()
    made = stage(torch.randn(4, 8))
    scaler.scale(made.square().mean()).backward()
    if way != "alone":
        dist.send(made.detach(), 1) if rank == 0 else dist.recv(torch.empty(4, 8), 0)
    if step == 3 and (rank == 1 or way == "both"):
        stage.weight.grad[0, 0] = torch.inf
    scaler.unscale_(optimizer)
    if way == "told":
        found = scaler._per_optimizer_states[id(optimizer)]["found_inf_per_device"]
        for one in found.values():
            dist.all_reduce(one, op=dist.ReduceOp.MAX)
    scaler.step(optimizer)  # steps
    scaler.update()
dist.destroy_process_group()
"""


def test_a_step_that_one_stage_skips_is_told(tmp_path: Path) -> None:
    (found,) = findings_of(tmp_path, STAGES.format(way="one"))
    assert found.kind is FindingKind.DRIFT
    assert found.what.startswith("Rank 1 skips step 4,")
    assert "and rank 0 steps" in found.what
    assert (list(found.ranks), marked(found)) == ([0, 1], {"steps"})


@pytest.mark.slow
@pytest.mark.parametrize("way", ["both", "told", "alone"])
def test_steps_that_all_skip_or_that_no_other_shares_are_left_alone(
    way: str, tmp_path: Path
) -> None:
    assert [one for one in findings_of(tmp_path, STAGES.format(way=way)) if not one.remark] == []
