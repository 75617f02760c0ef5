"""What a simulated step spends by axis where calls cost more than their messages."""

from dataclasses import replace

import numpy as np
import pytest

from steptime.cluster import POST, CallTimes, parse_cluster
from steptime.program import Collective, Compute, Program, Recv, Send, Wait
from steptime.program.pair_bytes import calls_record
from steptime.runs.figures import CallKind
from steptime.simulate.step import simulate
from steptime.study.simulated_axes import simulated_axes

CLUSTER = """
[device]
flops = { fp32 = "1TFLOP/s" }
memory = "1GB"
memory_bandwidth = "1GB/s"

[host]
devices = 4

[inside]
kind = "switch"
name = "bus"
bandwidth = "1GB/s"
latency = "0us"
"""


def _times(seconds: float, late: float = 0.0) -> CallTimes:
    return CallTimes(
        ranks=2, sizes=(1e3, 1e6), seconds=(seconds,) * 2, late=(late,) * 2, algorithm="ring"
    )


def test_a_call_that_comes_late_is_late_along_its_own_axis_and_posting_is_along_none() -> None:
    calls = {"all_reduce": (_times(0.5, late=0.25),), POST: (_times(0.125),)}
    cluster = replace(parse_cluster(CLUSTER, "four"), calls=calls)
    ops = (
        Compute(name="first", seconds=1.0),
        Collective(name="sum 3", kind="all_reduce", group=("tensor",), nbytes=1000, after=(0,)),
        Wait(name="wait", after=(1,)),
        Send(name="send", axis="data", by=1, nbytes=1000, stream="out", after=(2,)),
        Recv(name="receive", axis="data", by=-1, nbytes=1000, stream="in", after=(2,)),
        Compute(name="second", seconds=1.0),
        Wait(name="end", after=(3, 4)),
    )
    program = Program(
        name="step", axes={"data": 2, "tensor": 2}, lists=(ops,), class_of=np.zeros(4, np.int32)
    )
    simulation = simulate(program, cluster)
    of_program = [CallKind(**call) for call in calls_record(program)]
    data, tensor = simulated_axes(program, simulation, of_program)
    assert (data.axis, tensor.axis) == ("data", "tensor")
    assert tensor.exposed_s == pytest.approx(0.75, rel=0.01)
    assert data.exposed_s == pytest.approx(0.0, abs=1e-5)  # hidden behind the second computing
    assert simulation.step_s[-1] == pytest.approx(3.0, rel=0.01)  # with 0.25 of posting both ends
