"""Ranks that share a model tell what they spend along each axis."""

from dataclasses import dataclass

import numpy as np
import pytest

from ranks import on_ranks
from steptime.strategies import strategy_named
from steptime.timeline import Phase
from steptime.timeline.by_axis import axis_in_name
from steptime.train.options import DataOptions, JobOptions, ModelOptions, TrainOptions
from steptime.train.parallel.options import ParallelOptions
from steptime.train.parallel.parties import parties
from steptime.turns import TurnOptions
from steptime.workloads.mesh import Mesh


@dataclass(frozen=True)
class Told:
    """What a comparison of one strategy tells: its figures, its names of calls, its bubble."""

    figures: object
    calls: set
    bubble: float


def compared(folder, parallel, strategy):
    """What rank 0 tells of a few steps."""
    from steptime.study.compare import compare
    from steptime.train.job import prepare_job

    options = JobOptions(
        model=ModelOptions(layers=2, heads=2, hidden=16, tokens=16),
        data=DataOptions(data=folder / "text.txt"),
        train=TrainOptions(batch=8),
        precision="fp32",
        parallel=parallel,
        compiled=False,
        steps=5,
        warmup=1,
        seed=0,
    )
    job = prepare_job(options, on_gpu=False)
    found = compare(job, [strategy_named(strategy)], TurnOptions(turns=2), lambda _: None)
    if found is None:
        return None
    line = found.timeline
    rows = line.intervals[line.intervals["phase"] == Phase.COMMUNICATION]
    calls = {line.names[name] for name in rows["name"].tolist()}
    return Told(found.strategies[strategy], calls, line.bubble)


def text_in(folder):
    (folder / "text.txt").write_text("".join(f"{n} and {n} are {2 * n}.\n" for n in range(900)))
    return folder


def check_sums(figures):
    """Exposed times are a part of the step's, and the most of a rank is no less than the mean."""
    exposed = sum(of.exposed_s for of in figures.axes)
    assert 0 < exposed <= figures.exposed_comm_s * (1 + 1e-9)
    for of in figures.axes:
        assert of.exposed_s + of.hidden_s <= of.under_way_s * (1 + 1e-9)
        assert of.most_exposed_s >= of.exposed_s * (1 - 1e-9)
        assert of.most_under_way_s >= of.under_way_s * (1 - 1e-9) > 0


@pytest.mark.slow
def test_a_pipeline_names_its_messages_and_its_bubble(tmp_path):
    text_in(tmp_path)
    stages = ParallelOptions(pipeline=2, micro_batches=2)
    told, _ = on_ranks(2, compared, tmp_path, tmp_path, stages, "overlapped_sharded")
    assert told.calls == {
        "send pipeline 0",
        "send pipeline 1",
        "receive pipeline 0",
        "receive pipeline 1",
        "all_reduce pipeline",
    }
    assert [of.axis for of in told.figures.axes] == ["pipeline"]
    assert told.bubble > 0
    assert 0 < told.figures.bubble_s <= told.figures.exposed_comm_s
    check_sums(told.figures)


@pytest.mark.slow
def test_the_gathers_of_sharded_parameters_are_those_of_the_axis_data(tmp_path):
    text_in(tmp_path)
    told, _ = on_ranks(2, compared, tmp_path, tmp_path, ParallelOptions(), "zero3")
    assert "all_gather data" in told.calls
    assert [of.axis for of in told.figures.axes] == ["data"]
    assert told.bubble == 0
    check_sums(told.figures)


def test_replicas_alone_call_what_they_call_together():
    assert axis_in_name("all_reduce") == ""


def test_the_party_of_a_collective_is_its_group():
    party = parties(Mesh(tensor=2, data=2, pipeline=2))  # rank = tensor + 2 data + 4 pipeline
    assert party("all_reduce tensor").group.tolist() == [0, 0, 2, 2, 4, 4, 6, 6]
    assert party("all_gather data").group.tolist() == [0, 1, 0, 1, 4, 5, 4, 5]
    assert party("all_reduce tensor+data").group.tolist() == [0, 0, 0, 0, 4, 4, 4, 4]
    assert not party("barrier").group.any()


def test_the_party_of_a_message_are_its_two_ends():
    party = parties(Mesh(data=2, pipeline=4))  # rank = data + 2 pipeline
    sent, received = party("send pipeline 2"), party("receive pipeline 1")
    assert sent.what == received.what
    assert sent.group[2] == received.group[4]  # from stage 1 to stage 2, of the first replica
    assert sent.group[3] == received.group[5]
    ends = np.concatenate([sent.group, party("send pipeline 1").group])
    assert len(np.unique(ends)) == len(ends)
