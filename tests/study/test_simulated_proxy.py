"""A proxy simulated on a cluster: the same as simulate, divided as a live run is."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from proxies import proxied
from steptime.cluster import cluster_named
from steptime.program import Collective, Compute, Op, Send, Wait
from steptime.replay.waits import RankTimes, spent_by
from steptime.runs.proxy_record import PhaseTime, error_of
from steptime.simulate.step import simulate
from steptime.study.options import HowOptions
from steptime.study.simulated_proxy import (
    simulate_live_proxy,
    simulate_proxy,
    simulated_record,
)
from steptime.timeline import Phase

COSTS = ("late", "post")
ORIGINAL: dict[str, Any] = {"compat": "dnn-cpp-proxies", "cluster": "dgx-a100"}
MEASURED = """
[device]
flops = { fp32 = "1TFLOP/s" }
memory = "8GB"
memory_bandwidth = "10GB/s"

[host]
devices = 4

[inside]
kind = "switch"
name = "bus"
bandwidth = "1GB/s"
latency = "20us"

[calls]
message = [{ ranks = 4, sizes = ["4KB", "4MB"], times = ["0.1ms", "4ms"], late = ["1ms", "2ms"] }]
post = [{ ranks = 4, sizes = ["4KB", "4MB"], times = ["0.2ms", "0.4ms"] }]

[[calls.all_reduce]]
ranks = 4
algorithm = "ring"
sizes = ["4KB", "4MB"]
times = ["0.3ms", "9ms"]
late = ["1ms", "1ms"]
late_beside = ["0.25ms", "0.25ms"]
"""
HYBRID: dict[str, Any] = {
    "tensor": 2,
    "pipeline": 2,
    "layers": 2,
    "cluster": "dgx-a100",
    "device_flops": "100TFLOP/s",
}


@pytest.mark.parametrize(
    ("model", "asked"), [("cosmoflow", ORIGINAL), ("dlrm", ORIGINAL), ("gpt2-124M", HYBRID)]
)
@pytest.mark.parametrize("fidelity", ["message", "collective"])
def test_a_simulated_proxy_is_its_program_simulated(model: str, asked: Any, fidelity: Any) -> None:
    made = proxied(model, 8, **asked)
    one = simulate_proxy(made, HowOptions(fidelity=fidelity))
    if asked is ORIGINAL:
        plain = simulate(made.program, cluster_named("dgx-a100"), fidelity=fidelity)
        assert one.simulation.step_s.tolist() == plain.step_s.tolist()
        assert (one.simulation.ranks == plain.ranks).all()
    record = simulated_record(made, one)
    told = record.step
    assert told is not None
    assert told.step_time_s.median == one.simulation.step_s[-1]
    assert sum(of.mean_s for of in told.phases.values()) == pytest.approx(
        float(one.simulation.ranks["step_s"].mean())
    )
    ranks = one.simulation.ranks
    assert told.phases["compute"].mean_s == pytest.approx(ranks["compute_s"].mean())
    exposed = sum(told.phases[label].mean_s for label in told.under_way)
    assert exposed == pytest.approx(ranks["exposed_comm_s"].mean(), rel=1e-6)
    moved = [of.simulated_bytes for of in record.plan.per_rank]
    assert [of.sent for of in moved if of] == one.simulation.bytes_sent.round().tolist()


@pytest.mark.parametrize("asked", [{"strategy": "overlapped"}, {"pipeline": 2}])
def test_what_calls_cost_beyond_their_messages_is_waiting_for_them(
    tmp_path: Path, asked: dict[str, Any]
) -> None:
    file = tmp_path / "cluster.toml"
    file.write_text(MEASURED)
    how = {"layers": 2, "cluster": str(file), "device_flops": "5TFLOP/s", "scale_bytes": "1/64"}
    one = simulate_proxy(proxied("gpt2-124M", 4, **how, **asked), HowOptions())
    ranks, told = one.simulation.ranks, one.step
    costs = [op for ops in one.simulation.program.lists for op in ops if op.name.startswith(COSTS)]
    assert costs
    assert told.phases["compute"].mean_s == pytest.approx(ranks["compute_s"].mean())
    exposed = sum(told.phases[label].mean_s for label in told.under_way)
    assert exposed == pytest.approx(ranks["exposed_comm_s"].mean(), rel=1e-6)


def test_without_computing_only_communication_takes_time() -> None:
    none = simulate_proxy(proxied("gpt2-124M", 8, **HYBRID, compute="nothing"), HowOptions())
    assert none.step.phases["compute"] == PhaseTime(mean_s=0, max_s=0)
    assert none.step.phases["tensor"].mean_s > 0


def test_computing_takes_what_the_cluster_takes_where_nothing_else_is_said() -> None:
    asked = {key: value for key, value in HYBRID.items() if key != "device_flops"}
    made = proxied("gpt2-124M", 8, **asked)
    assert "A100" in made.times
    peak = cluster_named("dgx-a100").device
    flops = proxied("gpt2-124M", 8, **HYBRID).demands[0].compute_s * 100e12
    assert made.demands[0].compute_s >= flops / (peak.flops["bf16"] * peak.efficiency)


def test_what_the_main_stream_waited_for_is_judged_as_in_a_live_run() -> None:
    ops: tuple[Op, ...] = (
        Compute(name="forward"),
        Collective(name="sum", kind="all_reduce", group=("data",), nbytes=8, after=(0,)),
        Send(name="out", axis="pipeline", by=1, nbytes=8, stream="out", after=(0,)),
        Compute(name="backward"),
        Wait(name="both", after=(1, 2)),
        Compute(name="update", phase=Phase.UPDATE),
    )
    starts = np.array([[0.0, 2.0, 2.0, 2.0, 3.0, 9.0]])
    ends = np.array([[2.0, 5.0, 9.0, 3.0, 9.0, 10.0]])
    times = RankTimes(ops, starts, ends)
    # The first that has not ended of those waited for: the sum until 5, then the message.
    expected = {"compute": 3, "update": 1, "data": 2, "pipeline": 4}
    assert spent_by(times, 0, 10) == expected
    assert times.under_way("pipeline") == 7
    assert spent_by(times, 2.5, 7) == {"compute": 0.5, "data": 2, "pipeline": 2}


def test_what_stands_before_a_call_in_its_stream_is_waited_for_first() -> None:
    ops: tuple[Op, ...] = (
        Collective(name="layer", kind="all_reduce", group=("tensor",), nbytes=8, after=(-1,)),
        Collective(name="sum", kind="all_reduce", group=("data",), nbytes=8, after=(-1,)),
        Wait(name="sum there", after=(1,)),
    )
    times = RankTimes(ops, np.array([[0.0, 3.0, 0.0]]), np.array([[3.0, 4.0, 4.0]]))
    assert spent_by(times, 0, 4) == {"tensor": 3, "data": 1}


def test_what_a_call_costs_beyond_its_messages_is_the_calls_own() -> None:
    ops: tuple[Op, ...] = (
        Compute(name="forward"),
        Send(name="out", axis="pipeline", by=1, nbytes=8, stream="out", after=(0,)),
        Compute(name="late", phase=Phase.COMMUNICATION, stream="sums", after=(0,)),
        Collective(name="sum", kind="all_reduce", group=("data",), nbytes=8, stream="sums"),
        Compute(name="post", phase=Phase.COMMUNICATION),
        Compute(name="backward"),
        Wait(name="sum there", after=(3,)),
    )
    starts = np.array([[0.0, 2.0, 2.0, 4.0, 2.0, 2.5, 3.0]])
    ends = np.array([[2.0, 3.0, 4.0, 6.0, 2.5, 3.0, 6.0]])
    times = RankTimes(ops, starts, ends)
    assert spent_by(times, 0, 6) == {"compute": 2.5, "pipeline": 0.5, "data": 3}
    assert times.under_way("data") == 2 + 2


@pytest.mark.parametrize(("compute", "late_s"), [("sleep", 0.25e-3), ("busy", 1e-3)])
def test_calls_beside_live_ranks_that_sleep_wait_for_no_core(
    compute: str, late_s: float, tmp_path: Path
) -> None:
    (tmp_path / "measured.toml").write_text(MEASURED)
    how = HowOptions()
    asked: Any = {"cluster": str(tmp_path / "measured.toml"), "compute_time": "10ms"}
    proxy = proxied("gpt2-nano", 4, strategy="replicated", compute=compute, **asked)
    simulated = simulate_live_proxy(proxy, how).simulation
    (late,) = (op for op in simulated.program.lists[0] if op.name.startswith("late "))
    assert isinstance(late, Compute)
    assert late.seconds == pytest.approx(late_s)


def test_an_error_is_a_part_of_what_was_measured() -> None:
    assert error_of(2.0, 1.5) == -0.25
    assert error_of(1.0, 1.1) == pytest.approx(0.1)
    assert error_of(0.0, 1.0) is None
