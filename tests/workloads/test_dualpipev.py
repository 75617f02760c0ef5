"""DualPipeV: the pipeline that turns at its last stage, in time and as a program."""

import pytest

from steptime.errors import UsageError
from steptime.program import PIPELINE, Collective, Recv, Send, check
from steptime.workloads.hybrid import Hybrid
from steptime.workloads.mesh import Mesh
from steptime.workloads.models import Transformer
from steptime.workloads.pipelines import pipeline, pipeline_timeline
from steptime.workloads.pipelines.complete import check_passes

MODEL = Transformer(name="small", layers=8, hidden=64, heads=4, context=32, vocabulary=256)


@pytest.mark.parametrize("stages", [2, 3, 4, 5, 8])
@pytest.mark.parametrize("more", [0, 1, 7])
def test_a_stage_is_idle_for_a_slot_for_each_other_one(stages, more):
    made = pipeline("dualpipev", stages=stages, micro_batches=2 * stages + more, chunks=2)
    check_passes(made, "dualpipev")
    found = pipeline_timeline(made)
    # 1f1b of pieces of this size is idle for 6 slots for each: 3 a piece, and twice the pieces.
    assert found.idle == (stages - 1,) * stages
    assert found.in_flight == (2 * stages + 1,) * stages


def test_the_first_stage_has_both_ends_and_no_table_is_sent():
    step = Hybrid(
        MODEL,
        mesh=Mesh(pipeline=4, data=2),
        micro_batches=8,
        schedule="dualpipev",
        interleave=2,
    )
    check(step.program)
    names = [[unit.name for chunk in stage.chunks for unit in chunk] for stage in step.stages]
    assert names == [
        ["embedding", "block 0", "block 7", "head"],
        ["block 1", "block 6"],
        ["block 2", "block 5"],
        ["block 3", "block 4"],
    ]
    assert [stage.gradients.tied for stage in step.stages] == [True, False, False, False]
    for number, ops in enumerate(step.program.lists):
        ends = [op for op in ops if isinstance(op, Send | Recv)]
        turns = number in (0, 3)  # it has one neighbour, and micro-batches turn here
        assert len(ends) == 8 * (4 if turns else 8)
        assert {op.axis for op in ends} == {PIPELINE}
        assert {op.by for op in ends} == ({1 if number == 0 else -1} if turns else {1, -1})


def test_where_micro_batches_turn_they_wait_for_what_tensor_ranks_have_summed():
    step = Hybrid(
        MODEL,
        mesh=Mesh(pipeline=2, tensor=2),
        micro_batches=4,
        schedule="dualpipev",
        interleave=2,
    )
    ops = step.program.lists[-1]

    def places(direction: str, chunk: int) -> list[int]:
        named = [op.name.startswith(direction) and f" 0.{chunk} " in op.name for op in ops]
        return [place for place, found in enumerate(named) if found]

    for direction, before, behind in (("forward", 0, 1), ("backward", 1, 0)):
        (awaited,) = ops[places(direction, behind)[0]].after
        assert isinstance(ops[awaited], Collective)
        assert places(direction, before)[-1] < awaited


@pytest.mark.parametrize(
    ("shape", "sentence"),
    [
        ({"stages": 2, "micro_batches": 4}, "dualpipev needs 2 chunks a stage, not 1: ask for 2"),
        ({"stages": 1, "micro_batches": 4, "chunks": 2}, "needs at least 2 stages, not 1"),
        ({"stages": 4, "micro_batches": 7, "chunks": 2}, "7 are too few for 4: ask for 8"),
    ],
)
def test_what_it_does_not_serve_is_refused(shape, sentence):
    with pytest.raises(UsageError, match=sentence):
        pipeline("dualpipev", **shape)
