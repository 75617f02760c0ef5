"""The search of layouts: what pruning leaves out changes nothing that is told."""

import numpy as np
import pytest

from steptime.cluster import Cluster, cluster_named
from steptime.plan.bound import least_seconds
from steptime.plan.front import Front, pareto
from steptime.plan.search import memory_bytes, search
from steptime.plan.space import Space, layouts_in
from steptime.predict.estimate import estimate
from steptime.predict.layouts import Layouts
from steptime.predict.machine import Machine, machine_of
from steptime.predict.software import software_named, software_names
from steptime.workloads.models import Transformer, model_named

SPACES = [
    ("gpt2-124M", "dgx-a100", 8, 64, 1024),
    ("llama3-8B", "dgx-h100", 8, 32, 8192),
    ("llama3-70B", "dgx-h100-pod", 64, 256, 4096),
    ("mixtral-8x7B", "dgx-h100-pod", 32, 64, 4096),
    ("gpt3-175B", "dgx-a100-pod", 96, 192, 2048),
]


def case(
    name: str, cluster: str, ranks: int, batch: int, tokens: int
) -> tuple[Transformer, Layouts, Machine]:
    model = model_named(name)
    assert isinstance(model, Transformer)
    rows = layouts_in(Space(model=model, ranks=ranks, batch=batch, tokens=tokens))
    return model, rows, on(cluster_named(cluster))


def on(cluster: Cluster) -> Machine:
    return machine_of(cluster, software_named("megatron"))


@pytest.mark.parametrize("which", SPACES, ids=lambda which: which[0])
@pytest.mark.parametrize("best", [1, 10])
def test_pruned_and_full_searches_tell_the_same(
    which: tuple[str, str, int, int, int], best: int
) -> None:
    model, rows, machine = case(*which)
    pruned = search(model, rows, machine, best=best)
    full = search(model, rows, machine, best=best, prune=False)
    assert pruned.estimated <= full.estimated == full.fitting == pruned.fitting
    assert np.array_equal(pruned.layouts[:best], full.layouts[:best])
    assert np.array_equal(pruned.step_s[:best], full.step_s[:best])
    assert np.array_equal(pruned.layouts[pruned.front], full.layouts[full.front])
    assert np.array_equal(pruned.cells.step_s, full.cells.step_s)
    assert np.array_equal(pruned.cells.memory_bytes, full.cells.memory_bytes)


def test_what_cannot_matter_is_not_estimated() -> None:
    model, rows, machine = case(*SPACES[2])
    found = search(model, rows, machine, best=10)
    assert found.estimated < found.fitting
    alone = search(model, rows, machine, best=1, told=False)
    assert alone.estimated < found.estimated
    assert alone.step_s[0] == found.step_s[0]


@pytest.mark.parametrize("which", SPACES, ids=lambda which: which[0])
def test_the_best_is_what_estimating_everything_finds(
    which: tuple[str, str, int, int, int],
) -> None:
    model, rows, machine = case(*which)
    found = search(model, rows, machine)
    kept = memory_bytes(model, rows, machine)
    fits = rows[kept <= machine.device.memory]
    seconds = estimate(model, fits, machine).step_s
    assert found.fitting == fits.size
    assert np.array_equal(found.step_s[:100], np.sort(seconds)[:100])
    assert np.all(found.memory_bytes <= machine.device.memory)
    cells = {
        (t, p): seconds[(fits["tensor"] == t) & (fits["pipeline"] == p)].min(initial=np.inf)
        for t, p in zip(found.cells.tensor.tolist(), found.cells.pipeline.tolist(), strict=True)
    }
    assert np.array_equal(found.cells.step_s, list(cells.values()))
    assert found.cells.layouts.sum() == rows.size


@pytest.mark.parametrize("software", software_names())
@pytest.mark.parametrize("which", SPACES, ids=lambda which: which[0])
def test_no_estimate_is_below_its_bound(
    which: tuple[str, str, int, int, int], software: str
) -> None:
    model, rows, _ = case(*which)
    machine = machine_of(cluster_named(which[1]), software_named(software))
    some = rows[:: max(1, rows.size // 3000)]
    assert np.all(least_seconds(model, some, machine) <= estimate(model, some, machine).step_s)


def test_of_what_fits_nowhere_the_leanest_are_told() -> None:
    model, rows, machine = case("gpt3-175B", "dgx-a100", 8, 64, 2048)
    found = search(model, rows, machine)
    assert not found.fits
    assert found.fitting == 0
    assert found.memory_bytes[0] == memory_bytes(model, rows, machine).min()
    assert np.all(np.diff(found.memory_bytes) >= 0)
    assert np.all(np.isinf(found.cells.step_s))


def test_a_front_is_what_nothing_beats() -> None:
    random = np.random.default_rng(0)
    first, second = random.integers(0, 30, (2, 200)).astype(float)
    front = set(pareto(first, second).tolist())
    for at in range(first.size):
        worse = (first <= first[at]) & (second <= second[at])
        worse &= (first < first[at]) | (second < second[at])
        alike = (first == first[at]) & (second == second[at])
        assert (at in front) == (not worse.any() and np.flatnonzero(alike)[0] == at)


def test_a_front_that_grows_is_that_of_all() -> None:
    random = np.random.default_rng(1)
    first, second = random.random((2, 300))
    front = Front()
    for begin in range(0, 300, 50):
        some = slice(begin, begin + 50)
        kept = set(pareto(first[:begin], second[:begin]).tolist())
        joined = front.may_join(first[some], second[some])
        front.add(first[some], second[some])
        now = set(pareto(first[: begin + 50], second[: begin + 50]).tolist())
        assert now - kept <= {begin + n for n in np.flatnonzero(joined).tolist()}
