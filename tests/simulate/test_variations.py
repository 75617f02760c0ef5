"""One step on many clusters: what is asked again is what would be simulated anew."""

import pytest

from steptime.cluster import cluster_named
from steptime.cluster.what_if import parse_what_if, what_if
from steptime.simulate.prepare import prepare, prepare_again
from steptime.simulate.step import simulate, step_seconds
from steptime.workloads.hybrid import hybrid
from steptime.workloads.models import model_named


@pytest.mark.parametrize("fidelity", ["message", "collective"])
@pytest.mark.parametrize("cluster", ["dgx-h100", "marenostrum5-nine"])  # NCCL, and measured costs
@pytest.mark.parametrize(
    ("change", "kept"),
    [
        ("bandwidth=3x", True),
        ("latency=9x", True),
        ("compute=2x", True),
        ("reduction=1GB/s", False),
    ],
)
def test_a_step_asked_again_on_another_cluster(fidelity, cluster, change, kept):
    shape = {"data": 4, "pipeline": 2, "micro_batches": 2}
    program = hybrid(model_named("gpt2-124M"), **shape, dtype="fp32")
    first = cluster_named(cluster)
    changed = what_if(first, parse_what_if(change))
    prepared = prepare(program, first, fidelity=fidelity)
    again = prepare_again(prepared, changed)
    assert (again.matching is prepared.matching) == kept
    anew = simulate(program, changed, fidelity=fidelity)
    assert step_seconds(again).tolist() == anew.step_s.tolist()
    assert again.ideal.step_s == anew.ideal_step_s
    if change == "compute=2x":
        assert (step_seconds(prepared) != anew.step_s).all()
