"""What prices of collectives say against every message simulated."""

from dataclasses import replace

import numpy as np
import pytest

from simulate.networks import star
from simulate.programs import collective, compute, program
from steptime.cluster import cluster_named
from steptime.collectives import all_algorithms
from steptime.program import Wait
from steptime.simulate.step import simulate

SHIPPED = [a for a in all_algorithms() if a.serves(8)]


@pytest.mark.parametrize("one", SHIPPED, ids=lambda a: f"{a.collective.name}/{a.name}")
@pytest.mark.parametrize("reduction", [np.inf, 10e9])
def test_a_collective_alone_takes_the_same(one, reduction):
    cluster = star(8, reduction=reduction)
    ops = (
        compute("a", 1e-3),
        collective("r", one.collective.name, 3_000_000, 0, algorithm=one.name),
        Wait(name="w", after=(1,)),
    )
    found = {
        fidelity: simulate(program(ops, data=8), cluster, fidelity=fidelity)
        for fidelity in ("message", "collective")
    }
    by_message, by_price = found["message"], found["collective"]
    assert by_price.step_s.max() == pytest.approx(by_message.step_s.max(), rel=1e-9)
    assert by_price.messages == by_message.messages
    assert by_price.link_bytes == pytest.approx(by_message.link_bytes)


def test_tensor_and_data_parallel_steps_agree_within_3_percent():
    # eight hosts of eight: tensor within a host, data between hosts, each rail its own
    ops = []
    for number in range(12):
        ops.append(compute("matmul", 1e-3, *([len(ops) - 1] if ops else [])))
        ops.append(
            collective(
                "sum", "all_reduce", 50_000_000, len(ops) - 1, group=("tensor",), stream="tensor"
            )
        )
        if number % 4 == 3:
            ops.append(collective("reduce", "all_reduce", 80_000_000, len(ops) - 1))
    ops.append(Wait(name="w", after=(len(ops) - 1,)))
    cluster = replace(cluster_named("dgx-h100-pod"), nccl=None)  # both simulate messages
    both = program(tuple(ops), tensor=8, data=8)
    steps = {
        fidelity: simulate(both, cluster, fidelity=fidelity).step_s[-1]
        for fidelity in ("message", "collective")
    }
    assert steps["collective"] == pytest.approx(steps["message"], rel=0.03)
    assert steps["message"] > 12e-3
