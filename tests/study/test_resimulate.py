"""What was measured, simulated elsewhere: the same calls with the compute that was measured."""

from dataclasses import replace

import pytest

from steptime.cluster.files import cluster_named
from steptime.program import Compute
from steptime.runs.figures import RankFigures, Spread, StepFigures
from steptime.study.comparison import Comparison
from steptime.study.options import HowOptions
from steptime.study.resimulate import asked_of_comparison
from steptime.study.simulate import once_more, prepare_all, study
from steptime.timeline import Phase, Recorder
from steptime.train.options import DataOptions, JobOptions, ModelOptions, TrainOptions

OPTIONS = JobOptions(
    model=ModelOptions(model="nano"),
    data=DataOptions(),
    train=TrainOptions(batch=8),
    precision="fp32",
    compiled=False,
    steps=4,
    warmup=1,
    seed=0,
)
RANKS = 4


def measured(compute_s: float, update_s: list[float]) -> StepFigures:
    nothing = [0] * RANKS
    return StepFigures(
        source="measured",
        summary="as told",
        step_time_s=Spread(0.3, 0.2, 0.4),
        compute_s=compute_s,
        exposed_comm_s=0.1,
        update_s=sum(update_s) / RANKS,
        other_s=0.0,
        bytes_sent_per_rank=nothing,
        bytes_received_per_rank=nothing,
        wire_bytes_sent_per_rank=None,
        wire_bytes_received_per_rank=None,
        bytes_sent_per_host={},
        bytes_received_per_host={},
        tokens_per_s=1.0,
        loss=[1.0],
        parameter_hash=["a"],
        ranks=[
            RankFigures(
                rank=rank,
                host="here",
                step_time_s=0.3,
                compute_s=compute_s,
                exposed_comm_s=0.1,
                update_s=seconds,
                other_s=0.0,
            )
            for rank, seconds in enumerate(update_s)
        ],
    )


@pytest.fixture(scope="module")
def record():
    of_strategies = {
        "server": measured(0.2, [0.04, 0, 0, 0]),
        "replicated": measured(0.1, [0.02] * RANKS),
        "shared": measured(0.1, [0.02] * RANKS),
    }
    comparison = Comparison(of_strategies, Recorder().timeline(0, RANKS))
    config = OPTIONS.model.config(vocabulary=256)
    cluster = cluster_named("office-10gbe")
    asked = asked_of_comparison(comparison.strategies, OPTIONS, config, cluster)
    prepared = prepare_all(asked, asked.cluster, HowOptions())
    return once_more(study(asked, asked.cluster, HowOptions(), prepared, lambda _: None))


def test_compute_and_update_are_those_that_were_measured(record):
    server, replicated = record.strategies["server"], record.strategies["replicated"]
    assert replicated.compute_s == pytest.approx(0.1)
    assert replicated.update_s == pytest.approx(0.02)
    assert server.compute_s == pytest.approx(0.2)
    assert [rank.update_s for rank in server.ranks] == pytest.approx([0.04, 0, 0, 0])


@pytest.mark.parametrize(("cores", "known", "seconds"), [(2, 4, 0.025), (2, 3, 0.1), (0, 4, 0.1)])
def test_on_cores_that_ranks_share_they_compute_as_long_as_they_needed_one(cores, known, seconds):
    """Where the cluster has cores and each rank knows: else as long as it took by the clock."""
    figures = measured(0.1, [0.02] * RANKS)
    told = {"compute_core_s": 0.025, "update_core_s": 0.01}
    ranks = [replace(one, **told) if one.rank < known else one for one in figures.ranks]
    cluster = replace(cluster_named("office-10gbe"), cores=float(cores))
    config = OPTIONS.model.config(vocabulary=256)
    figures = {"replicated": replace(figures, ranks=ranks)}
    (case,) = asked_of_comparison(figures, OPTIONS, config, cluster).cases
    computing = [op for op in case.program.lists[0] if isinstance(op, Compute)]
    phases = {
        phase: sum(op.seconds for op in computing if op.phase is phase)
        for phase in (Phase.COMPUTE, Phase.UPDATE)
    }
    assert phases[Phase.COMPUTE] == pytest.approx(seconds)
    assert phases[Phase.UPDATE] == pytest.approx(0.01 if seconds == 0.025 else 0.02)
    assert case.program.on_cores == (seconds == 0.025)


def test_the_bytes_are_those_of_the_model(record):
    config = OPTIONS.model.config(vocabulary=256)
    sent = record.strategies["replicated"].bytes_sent_per_rank
    assert sent == pytest.approx(
        [2 * (RANKS - 1) / RANKS * 4 * config.parameters] * RANKS, rel=0.01
    )


def test_what_the_cluster_cannot_run_is_left_out_and_all_is_marked(record):
    assert list(record.strategies) == ["server", "replicated"]
    assert (record.cluster, record.winner) == ("office-10gbe", "replicated")
    sources = {entry.source for entry in record.strategies.values()}
    assert {record.source, *sources} == {"simulated"}
