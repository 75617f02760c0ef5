"""Simulated steps as figures: what run.json says of them, by hand and by conservation."""

from dataclasses import replace

import numpy as np
import pytest

from simulate.networks import star
from steptime.errors import UsageError
from steptime.program import Collective, Compute, Program
from steptime.runs.record import to_json
from steptime.study.cases import Asked
from steptime.study.options import HowOptions
from steptime.study.simulate import (
    bounds_of,
    once_more,
    prepare_all,
    probes_of,
    study,
)
from steptime.study.simulate import (
    record as record_of,
)
from steptime.timeline import Phase
from steptime.workloads.presets import Case

BYTES = 1_000_000


def program(name: str, seconds: float) -> Program:
    work = Compute(name="forward", seconds=seconds)
    update = Compute(name="update", seconds=1e-3, phase=Phase.UPDATE, after=(1,))
    reduce = Collective(
        name="all_reduce", kind="all_reduce", group=("data",), nbytes=BYTES, after=(0,)
    )
    return Program(
        name=name,
        axes={"data": 4},
        lists=((work, reduce, update),),
        class_of=np.zeros(4, np.int32),
    )


def asked(cluster, **seconds: float) -> Asked:
    cases = [
        Case(name=n, summary="", program=program(n, s), algorithms={"all_reduce": "ring"})
        for n, s in seconds.items()
    ]
    return Asked(cluster=cluster, cases=cases, facts={"model": "by hand"}, tokens=1000)


def studied(asked: Asked, cluster, how: HowOptions):
    return study(asked, cluster, how, prepare_all(asked, cluster, how), lambda _: None)


@pytest.fixture(scope="module")
def cluster():
    return star(4, bandwidth=1e9, latency=5e-5)


@pytest.fixture(scope="module")
def simulated(cluster):
    return studied(asked(cluster, server=10e-3, quick=4e-3), cluster, HowOptions())


def record(study):
    return to_json(record_of(study, "runs/x"))


# 6 rounds of a quarter over two links
ALL_REDUCE = 6 * (1e-4 + BYTES / 4 / 1e9)


def test_the_figures_are_those_of_the_step_by_hand(simulated):
    run = record(simulated)
    entry = run["strategies"]["server"]
    assert entry["step_time_s"]["median"] == pytest.approx(10e-3 + ALL_REDUCE + 1e-3)
    assert entry["step_time_s"]["p10"] == entry["step_time_s"]["p90"]
    assert entry["compute_s"] == pytest.approx(10e-3)
    assert entry["exposed_comm_s"] == pytest.approx(ALL_REDUCE)
    assert entry["update_s"] == pytest.approx(1e-3)
    assert entry["bytes_sent_per_rank"] == [BYTES * 3 // 2] * 4
    assert entry["bytes_received_per_host"] == {f"host{n}": BYTES * 3 // 2 for n in range(4)}
    assert entry["tokens_per_s"] == pytest.approx(1000 / entry["step_time_s"]["median"])
    assert (entry["loss"], entry["parameter_hash"], entry["source"]) == ([], [], "simulated")
    assert entry["wire_bytes_sent_per_rank"] is None


def test_the_record_tells_the_fastest_in_full(simulated):
    run = record(simulated)
    quick = run["strategies"]["quick"]
    assert (run["source"], run["fidelity"], run["winner"]) == ("simulated", "message", "quick")
    assert run["step_time_s"] == quick["step_time_s"]["median"]
    assert quick["speed_against_server"] == pytest.approx(
        run["strategies"]["server"]["step_time_s"]["median"] / run["step_time_s"]
    )
    assert run["world_size"] == 4
    assert run["messages"] == 2 * 4 * 6
    for rank in run["ranks"]:
        busy = rank["compute_s"] + rank["exposed_comm_s"] + rank["update_s"]
        assert busy + rank["idle_s"] == pytest.approx(run["step_time_s"])
    assert len(run["links"]) == 8
    for link in run["links"]:
        assert link["bytes"] == BYTES * 3 // 2
        assert link["utilisation"] == pytest.approx(link["bytes"] / 1e9 / run["step_time_s"])


def test_the_use_of_links_over_time_holds_the_bytes_of_the_step(simulated):
    use = record(simulated)["strategies"]["quick"]["link_use"]
    assert use["left_out"] == 0
    assert sorted(use["links"]) == sorted(simulated.cluster.links.names)
    table = np.array(use["utilisation"])
    # The first bin may hold the end of the step before, which computed: it adds nothing.
    carried = table.sum(axis=1) * use["bin_s"] * 1e9
    assert carried == pytest.approx(np.full(8, BYTES * 1.5), rel=2e-3)
    assert table.max() <= 1 + 1e-9
    assert -use["bin_s"] < use["begin_s"] <= 0


def test_at_collective_fidelity_the_use_is_a_mean_over_the_step(cluster):
    how = HowOptions(fidelity="collective")
    run = record(studied(asked(cluster, quick=4e-3), cluster, how))
    use = run["strategies"]["quick"]["link_use"]
    assert use["bin_s"] == pytest.approx(run["step_time_s"])
    assert use["utilisation"] == [
        [pytest.approx(BYTES * 1.5 / 1e9 / run["step_time_s"], abs=1e-4)] for _ in range(8)
    ]


def test_timelines_stand_one_after_the_other(simulated):
    timeline = simulated.comparison.timeline
    server, quick = (timeline.steps_named(name) for name in ("server", "quick"))
    assert server["end"].max() <= quick["start"].min()
    assert timeline.source == "simulated"
    assert len(server) == len(quick) == 4 * 2


def test_what_if_is_the_same_on_another_cluster(simulated, cluster):
    links = replace(cluster.links, bandwidth=2 * cluster.links.bandwidth)
    other = studied(simulated.asked, replace(cluster, links=links), simulated.how)
    entry = once_more(other, "bandwidth=2x").strategies["quick"]
    assert entry.exposed_comm_s == pytest.approx(6 * (1e-4 + BYTES / 4 / 2e9))


def test_what_bounds_a_step_is_each_parts_share_of_it(simulated):
    asked = probes_of(simulated, "server")
    found = {(s.what, s.kind): s.elasticity for s in bounds_of(simulated, "server", asked)}
    step = 11e-3 + ALL_REDUCE
    assert found["all devices", "compute"] == pytest.approx(11e-3 / step, rel=0.02)
    assert found["all links", "bandwidth"] == pytest.approx(1.5e-3 / step, rel=0.02)
    assert found["all links", "latency"] == pytest.approx(6e-4 / step, rel=0.02)


def test_an_algorithm_that_nothing_would_take_is_refused(cluster):
    one = asked(cluster, quick=4e-3)
    with pytest.raises(UsageError, match="--algorithm names one of broadcast, and the step does"):
        prepare_all(one, cluster, HowOptions(algorithm="broadcast=flat"))


def test_a_step_that_cannot_be_is_refused_before_the_one_before_it_is_simulated(cluster):
    both = asked(cluster, quick=4e-3, server=10e-3)
    unable = replace(both.cases[1], algorithms={"all_reduce": "two_levels"})
    with pytest.raises(UsageError, match="there is no all_reduce 'two_levels'"):
        prepare_all(replace(both, cases=[both.cases[0], unable]), cluster, HowOptions())
