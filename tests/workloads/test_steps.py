"""Which generator serves a model, and what a rank keeps of it."""

import pytest

from steptime.errors import UsageError
from steptime.workloads.mesh import Mesh
from steptime.workloads.models import model_named, model_names
from steptime.workloads.steps import has_own_step, own_step

COSMOFLOW, DLRM = model_named("cosmoflow"), model_named("dlrm")


def test_a_volume_is_cut_where_that_is_asked_for_and_tables_are_always_spread():
    own = {name for name in model_names() if has_own_step(model_named(name), shared=True)}
    assert own == {"cosmoflow", "dlrm"}
    own = {name for name in model_names() if has_own_step(model_named(name), shared=False)}
    assert own == {"dlrm"}


def test_the_mesh_says_what_is_cut():
    program, _ = own_step(COSMOFLOW, Mesh(tensor=4, data=2), batch=16)
    assert program.name == "cosmoflow tensor 4 × data 2 (each volume in 2 × 2)"
    assert program.class_of.tolist() == [0, 1] * 4
    program, _ = own_step(DLRM, Mesh(data=8), batch=16)
    assert program.name == "dlrm data 8"


def test_what_a_rank_keeps_is_its_share():
    _, (memory,) = own_step(COSMOFLOW, Mesh(tensor=4, data=2), batch=16)
    assert memory.parameters == memory.gradients == 4 * (4_704_608 + 1_050_737)
    assert memory.optimizer == 2 * memory.parameters
    kept = sum(unit.activations for unit in COSMOFLOW.units)
    assert memory.activations == 4 * (8 * kept // 4)
    _, (sharded,) = own_step(COSMOFLOW, Mesh(tensor=4, data=2), batch=16, strategy="sharded")
    assert sharded.optimizer == 2 * 4 * (4_704_608 // 8 + 1_050_737 // 2)


def test_tables_are_kept_once_in_all_and_mlps_by_every_rank():
    for ranks in (1, 4, 8):
        _, (memory,) = own_step(DLRM, Mesh(data=ranks), batch=64)
        assert memory.parameters == 4 * (4 * 80_000 * 128 // ranks + 777_601)
        assert memory.optimizer == 8 * 777_601
        assert memory.passing == 2 * 4 * 64 * 512 // ranks


@pytest.mark.parametrize(
    ("model", "mesh", "message"),
    [
        (DLRM, Mesh(tensor=2), "dlrm is shared along data alone, not in 2 along tensor"),
        (COSMOFLOW, Mesh(pipeline=4), "along tensor and data alone, not in 4 along pipeline"),
        (model_named("resnet50"), Mesh(data=2), "resnet50 has no way of its own"),
    ],
)
def test_an_axis_without_use_is_refused(model, mesh, message):
    with pytest.raises(UsageError, match=message):
        own_step(model, mesh, batch=8)
