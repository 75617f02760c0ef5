"""Pipeline schedules: their bubbles and what they keep, computed and as programs simulated."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from steptime.cluster import cluster_named
from steptime.cluster.what_if import ideal
from steptime.errors import SteptimeError, UsageError
from steptime.program import Compute, Send, check
from steptime.simulate.step import simulate
from steptime.workloads.hybrid import hybrid
from steptime.workloads.models import Transformer
from steptime.workloads.pipelines import (
    Pass,
    Pipeline,
    Schedule,
    Shape,
    pipeline,
    pipeline_timeline,
    schedule_names,
)

SMALL = Transformer(name="small", layers=24, hidden=64, heads=8, context=32, vocabulary=500)
SHAPES = [(2, 2), (2, 7), (4, 4), (4, 8), (6, 17), (8, 8), (8, 32)]
INTERLEAVED = [(2, 2, 2), (2, 6, 3), (3, 3, 4), (4, 8, 2), (4, 12, 3), (8, 16, 3)]
SECONDS = {"forward": 1.0, "backward": 2.0, "backward input": 1.0, "backward weight": 1.0}


def made(name, stages, micro_batches, chunks=1):
    return pipeline(name, stages=stages, micro_batches=micro_batches, chunks=chunks)


def simulated(name, stages, micro_batches, chunks=1):
    """The bubble of a step in which a part takes a second forward, and how long the step takes."""
    program = hybrid(
        SMALL,
        pipeline=stages,
        micro_batches=micro_batches,
        schedule=name,
        interleave=chunks,
        clip=False,
    )
    check(program)
    lists = tuple(tuple(map(constant, ops)) for ops in program.lists)
    cluster = ideal(cluster_named("dgx-h100"))
    run = simulate(replace(program, lists=lists), cluster, steps=1, fidelity="collective")
    busy = run.ranks["compute_s"]
    assert np.ptp(busy) < 1e-9
    return 1 - busy[0] / run.step_s[0], run.step_s[0]


def constant(op):
    if not isinstance(op, Compute):
        return op
    words = op.name.rstrip(".0123456789").split()
    alike = words[-1] in ("attention", "mlp")
    kind = " ".join(word for word in words[:-1] if word.isalpha())
    return replace(op, seconds=SECONDS[kind] if alike else 0.0, flops=0.0, nbytes=0.0)


@pytest.mark.parametrize("name", ["gpipe", "1f1b"])
@pytest.mark.parametrize(("stages", "micro_batches"), [*SHAPES, (1, 3), (8, 5), (4, 1)])
def test_the_bubble_of_gpipe_and_1f1b(name, stages, micro_batches):
    """(p - 1)/(m + p - 1) of the step (arXiv 2104.04473, section 2.2.1)."""
    expected = (stages - 1) / (micro_batches + stages - 1)
    assert pipeline_timeline(made(name, stages, micro_batches)).bubble == pytest.approx(
        expected, abs=1e-12
    )
    assert simulated(name, stages, micro_batches)[0] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("stages", "micro_batches", "chunks"), INTERLEAVED)
def test_interleaving_divides_idle_over_useful_time(stages, micro_batches, chunks):
    """(p - 1)/(v·m) of the work (arXiv 2104.04473, section 2.2.2)."""
    ratio = (stages - 1) / (micro_batches * chunks)
    computed = pipeline_timeline(made("1f1b", stages, micro_batches, chunks))
    assert computed.bubble_ratio == pytest.approx(ratio, abs=1e-12)
    bubble, _ = simulated("interleaved", stages, micro_batches, chunks)
    assert bubble / (1 - bubble) == pytest.approx(ratio, abs=1e-9)


@pytest.mark.parametrize(("stages", "micro_batches"), SHAPES)
def test_zb_h1_leaves_a_third_of_the_idle_time(stages, micro_batches):
    """(p - 1)(F + B - W) idle for (p - 1)(F + B + W) under 1F1B (arXiv 2401.10241, section 2.3).

    Their code gives the bubble rate as (p - 1)/3m, a third of the (p - 1)/m of 1F1B.
    """
    split, whole = (
        pipeline_timeline(made(name, stages, micro_batches)) for name in ("zb-h1", "1f1b")
    )
    assert set(split.idle) == {stages - 1}
    assert set(whole.idle) == {3 * (stages - 1)}
    assert split.idle[0] / whole.slots == pytest.approx(whole.bubble / 3, abs=1e-12)
    bubble, _ = simulated("zb-h1", stages, micro_batches)
    expected = (stages - 1) / (3 * micro_batches)
    assert bubble / (1 - bubble) == pytest.approx(expected, abs=1e-9)
    assert expected == pytest.approx(whole.bubble_ratio / 3, abs=1e-12)


@pytest.mark.parametrize("stages", [1, 2, 5, 8])
@pytest.mark.parametrize("micro_batches", [1, 3, 8, 20])
def test_activations_in_flight(stages, micro_batches):
    kept = {
        name: pipeline_timeline(made(name, stages, micro_batches)).in_flight
        for name in ("gpipe", "1f1b", "zb-h1")
    }
    assert kept["gpipe"] == (micro_batches,) * stages
    assert kept["1f1b"] == tuple(min(stages - s, micro_batches) for s in range(stages))
    assert kept["zb-h1"] == (min(stages, micro_batches),) * stages


def test_interleaving_keeps_more_of_smaller_pieces():
    """1 + (p - 1)/(p·v) times what 1F1B keeps on the first stage (arXiv 2205.05198)."""
    assert pipeline_timeline(made("1f1b", 4, 8, 2)).in_flight == (11, 9, 7, 5)
    assert 11 / 2 == 4 * (1 + 3 / (4 * 2))


@pytest.mark.parametrize(
    ("name", "stages", "micro_batches", "chunks"),
    [
        ("gpipe", 4, 3, 1),
        ("1f1b", 3, 5, 1),
        ("interleaved", 3, 6, 4),
        ("zb-h1", 6, 8, 1),
        ("zb-h1", 6, 3, 1),
    ],
)
def test_the_simulated_step_takes_as_long_as_the_computed_one(name, stages, micro_batches, chunks):
    computed = pipeline_timeline(made(name, stages, micro_batches, chunks))
    parts = 2 * SMALL.layers // (stages * chunks)
    _, step_s = simulated(name, stages, micro_batches, chunks)
    assert step_s == pytest.approx(parts * computed.slots, rel=1e-12)


@pytest.mark.parametrize("name", [n for n in schedule_names() if n != "dualpipev"])
def test_every_stage_runs_every_pass_once(name):
    chunks = 3 if name == "interleaved" else 1
    kinds = ["backward"] if name != "zb-h1" else ["backward input", "backward weight"]
    for stages in (2, 3, 4):
        for micro_batches in (stages, 3 * stages):
            order = made(name, stages, micro_batches, chunks)
            for stage in range(stages):
                assert Counter(order.passes(stage)) == Counter(
                    Pass(kind, number, chunk)
                    for kind in ["forward", *kinds]
                    for number in range(micro_batches)
                    for chunk in range(chunks)
                )


def test_a_schedule_that_waits_for_itself_is_told():
    def backwards(shape, _stage):
        yield from (Pass("backward", number) for number in range(shape.micro_batches))

    wrong = Schedule(name="wrong", summary="", passes=backwards)
    with pytest.raises(SteptimeError, match="wrong waits for itself"):
        pipeline_timeline(Pipeline(wrong, Shape(stages=2, micro_batches=2)))


@pytest.mark.parametrize("stages", [2, 4])
def test_micro_batches_of_an_interleaved_program_wrap_around(stages):
    program = hybrid(SMALL, pipeline=stages, micro_batches=4, interleave=3)
    for stage, ops in enumerate(program.lists):
        sent = Counter((op.by, op.tag) for op in ops if isinstance(op, Send) and op.tag < 2)
        forward, backward = (3, 2) if stage == 0 else (2, 3) if stage == stages - 1 else (3, 3)
        assert sent == {(1, 0): 4 * forward, (-1, 1): 4 * backward}
    run = simulate(program, cluster_named("dgx-h100"))
    assert run.step_s[-1] > 0


def test_all_schedules_compute_the_same_and_wait_differently():
    flops, seconds = {}, {}
    for name, chunks in [("gpipe", 1), ("1f1b", 1), ("interleaved", 2), ("zb-h1", 1)]:
        program = hybrid(
            SMALL, tensor=2, pipeline=4, micro_batches=8, schedule=name, interleave=chunks
        )
        flops[name] = sum(
            op.flops for ops in program.lists for op in ops if isinstance(op, Compute)
        )
        run = simulate(program, cluster_named("dgx-h100"), steps=1, fidelity="collective")
        seconds[name] = run.step_s[0]
    assert len({round(total) for total in flops.values()}) == 1
    assert len(set(seconds.values())) == 4


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"schedule": "gpip"}, "no pipeline schedule 'gpip': did you mean gpipe"),
        ({"schedule": "gpipe", "interleave": 2}, "gpipe has one chunk a stage, not 2: choose 1f1b"),
        ({"schedule": "zb-h1", "interleave": 2}, "zb-h1 has one chunk a stage"),
        ({"schedule": "interleaved"}, "needs at least 2 chunks a stage, not 1"),
        ({"interleave": 2, "pipeline": 1}, "needs at least 2 stages, not 1"),
        ({"interleave": 0}, "number of chunks a stage is 0: it must be at least 1"),
        ({"interleave": 5}, "5 chunks a stage do not divide the 6 layers of a stage.*3 and 6"),
        ({"interleave": 2, "micro_batches": 6}, "6 is no multiple of it: the nearest are 4 and 8"),
        ({"interleave": 2, "micro_batches": 3}, "3 is no multiple of it: the nearest is 4"),
        ({"pipeline": 7}, "7 pipeline stages do not divide the 24 layers of small.*6 and 8"),
    ],
)
def test_what_no_schedule_serves_is_refused(wrong, message):
    with pytest.raises(UsageError, match=message):
        hybrid(SMALL, **{"pipeline": 4, "micro_batches": 8} | wrong)
