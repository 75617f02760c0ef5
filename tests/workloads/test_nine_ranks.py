"""The published run of nine ranks, simulated."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from steptime.api.simulation import asked_of_preset, prepared
from steptime.cluster import cluster_named
from steptime.collectives import algorithms, schedule
from steptime.collectives.selection import blocks_for
from steptime.errors import UsageError
from steptime.program import Collective, check
from steptime.simulate.carry import carry
from steptime.simulate.step import simulate
from steptime.study.options import HowOptions
from steptime.units import three_digits
from steptime.workloads.presets import preset_named, preset_names, seconds_of
from steptime.workloads.spec import StepSpec

GRADIENTS = 4 * 124_475_904


@pytest.fixture(scope="module")
def preset():
    return preset_named("marenostrum5-nine")


@pytest.fixture(scope="module")
def cluster(preset):
    return cluster_named(preset.cluster)


@pytest.fixture(scope="module")
def runs(preset, cluster):
    return {
        case.name: simulate(case.program, cluster, algorithms=case.algorithms, steps=2)
        for case in preset.cases
    }


def without_adding(cluster):
    return replace(cluster, device=replace(cluster.device, reduction=np.inf))


def test_every_preset_can_be_simulated_and_every_published_figure_has_its_case():
    for name in preset_names():
        preset = preset_named(name)
        places = cluster_named(preset.cluster).order.size
        names = [case.name for case in preset.cases]
        assert len(set(names)) == len(names)
        for case in preset.cases:
            check(case.program)
            assert case.program.name == case.name
            assert case.program.ranks <= places
            kinds = {
                op.kind for ops in case.program.lists for op in ops if isinstance(op, Collective)
            }
            assert kinds == set(case.algorithms)
        assert {row.case for row in preset.published} <= set(names)


def test_the_server_is_alone_on_its_node_and_the_workers_are_two_a_node(preset, cluster):
    hosts = cluster.host_of[cluster.placed(9)]
    assert hosts.tolist() == [1, 1, 2, 2, 3, 3, 4, 4, 0]
    program = preset.case("server").program
    assert program.class_of.tolist() == [0] * 8 + [1]


def test_what_enters_the_server_takes_400_ms_at_least(preset, cluster):
    case = preset.case("server")
    run = simulate(case.program, without_adding(cluster), algorithms=case.algorithms, steps=1)
    bound = 8 * GRADIENTS / 10e9
    assert bound == pytest.approx(0.398, abs=0.001)
    assert seconds_of("reduce", run.timeline) == pytest.approx(bound, rel=1e-3)


def test_what_is_given_and_calibrated_comes_out_and_what_is_predicted_comes_near(preset, runs):
    how = {"forward and backward": "given", "reduce": "calibrated", "broadcast": "predicted"}
    within = {"given": 0.001, "calibrated": 0.001, "predicted": 0.12}
    for row in preset.published:
        simulated = seconds_of(row.what, runs[row.case].timeline)
        if row.label in how:
            assert row.how.startswith(how[row.label])
            assert simulated == pytest.approx(row.seconds, rel=within[how[row.label]])
        else:
            assert row.how.startswith("their sum")
            assert simulated == pytest.approx(row.seconds, rel=0.02)


def test_no_reduce_but_the_flat_one_is_slow_enough(cluster):
    for name, algorithm in algorithms("reduce").items():
        plan = schedule(algorithm, 9, root=8, blocks=blocks_for(GRADIENTS))
        seconds = carry(plan, cluster, cluster.placed(9), GRADIENTS).seconds
        assert (seconds > 0.45) == (name == "flat")


def test_strategies_are_faster_the_less_they_send_and_the_more_they_hide(runs):
    order = ["overlapped_sharded", "overlapped", "sharded", "replicated"]
    order += ["server_trees", "sliced", "server"]
    steps = [runs[name].step_s[-1] for name in order]
    assert steps == sorted(steps)


def test_nothing_is_faster_than_the_workers_and_their_network(runs):
    for run in runs.values():
        assert run.step_s[-1] > 0.1 + 1.5 * 157_685_760 / 10e9
        assert run.link_bytes.sum() > 0


def test_two_level_sends_the_least_between_nodes(runs, cluster):
    out = cluster.links.names.index("host1 → switch")
    assert runs["replicated_two_level"].link_bytes[out] == pytest.approx(1.5 * GRADIENTS)
    assert runs["replicated"].link_bytes[out] == pytest.approx(1.75 * GRADIENTS)


def test_the_page_tells_what_simulate_prints(preset, runs):
    text = (Path(__file__).parents[2] / "docs" / "nine-ranks.md").read_text()
    row = r"^\| `(\w+)`.*? \| (\d+) ms \| ([\d.]+) ms \| ([\d.]+) ms \| ([\d,]+) MB"
    told = re.findall(row, text, re.M)
    assert sorted(name for name, *_ in told) == sorted(runs)
    asked = asked_of_preset(preset.name, StepSpec(), HowOptions())
    shown = prepared(asked, HowOptions(), None).run(sensitivity=False).strategies
    for name, step, compute, exposed, busiest in told:
        run, figures = runs[name], shown[name]
        assert step == three_digits(1e3 * figures.step_time_s.median)
        assert compute == three_digits(1e3 * figures.compute_s)
        assert exposed == three_digits(1e3 * figures.exposed_comm_s)
        assert int(busiest.replace(",", "")) == round(run.link_bytes[-10:].max() / 1e6)


def test_an_unknown_preset_is_refused():
    with pytest.raises(UsageError, match=r"no preset 'nine': choose one of marenostrum5-nine"):
        preset_named("nine")
