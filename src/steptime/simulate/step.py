"""Simulating training steps: a Program on a Cluster."""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steptime.arrays import Floats, Ints
from steptime.cluster import Cluster
from steptime.cluster.what_if import IDEAL, parse_what_if, what_if
from steptime.program import Matching, Program
from steptime.program.message_ends import MOST_MESSAGES, message_ends, messages_of_step
from steptime.simulate.cores import idle_cores, no_cores
from steptime.simulate.division import divide, ready_times
from steptime.simulate.events import run_steps
from steptime.simulate.load import load
from steptime.simulate.network.series import series_of
from steptime.simulate.network.state import Network
from steptime.simulate.network.storage import empty_network, kept_of
from steptime.simulate.prepare import NOTHING_NAMED, Prepared, prepare
from steptime.simulate.priced import priced, timed
from steptime.simulate.simulation import (
    RANK,
    Fidelity,
    Simulation,
    Times,
    phases_of,
    ranks_to_show,
    timeline,
)
from steptime.timeline import EXPOSED, MESSAGE, PHASES
from steptime.timeline.phases import give_reasons


def simulate(
    program: Program,
    cluster: Cluster,
    *,
    fidelity: Fidelity = "message",
    algorithms: Mapping[str, str] = NOTHING_NAMED,
    steps: int = 2,
    keep_messages: bool = False,
) -> Simulation:
    """Simulate some steps of ``program`` with its ranks on the places of ``cluster`` in order.

    Fidelity ``message``: every message of every collective is a flow on the links of the cluster,
    shared with all others in progress. Fidelity ``collective``: a collective starts when all its
    members have reached it and ends for all of them at once. It takes what it would alone, more
    where the same op of other groups uses the same links; other ops do not delay it.

    ``algorithms``: by collective; they go before those that the program names; else the fastest is
    chosen. A step of a rank begins when its stream MAIN begins its list. ``keep_messages``: put the
    messages into the timeline, at fidelity ``message``.

    Raises UsageError, before it simulates anything, as ``prepare`` does.
    """
    prepared = prepare(program, cluster, fidelity=fidelity, algorithms=algorithms, steps=steps)
    return simulate_prepared(prepared, keep_messages=keep_messages)


def simulate_prepared(prepared: Prepared, *, keep_messages: bool = False) -> Simulation:
    """Simulate what ``prepare`` has checked and planned."""
    began = time.perf_counter()
    program, cluster, matching = prepared.program, prepared.cluster, prepared.matching
    devices, by_message = prepared.devices, prepared.fidelity == "message"
    kept, series = np.empty(0, MESSAGE), None
    if by_message:
        times, network = _by_messages(prepared, keep=keep_messages)
        series = series_of(network)
        kept = _messages(network, devices, cluster) if keep_messages else kept
    else:
        times = priced(program, prepared.queues, matching, prepared.plan.seconds, prepared.steps)
    carried = load(prepared.plan, cluster, devices)
    some = ranks_to_show(program)
    line = timeline(program, times, some, kept, prepared.ideal.bubble)
    if not keep_messages:
        line = replace(line, messages=_point_to_point(program, matching, line.intervals, some))
    return Simulation(
        fidelity=prepared.fidelity,
        program=program,
        timeline=line,
        shown_ranks=some,
        step_s=np.diff(times.bounds, axis=0).max(axis=1),
        ranks=_rank_figures(program, times, prepared.ideal.bubble),
        ideal_step_s=_ideal_step_s(prepared),
        bytes_sent=carried.sent,
        bytes_received=carried.received,
        messages=carried.messages,
        link_bytes=carried.links,
        link_series=series,
        pairs=carried.pairs,
        library=prepared.plan.library,
        wall_s=prepared.wall_s + time.perf_counter() - began,
    )


def step_seconds(prepared: Prepared) -> Floats:
    """What each step takes, shape (steps,), and nothing else that ``simulate`` tells.

    With ``prepare_again`` thousands of clusters can be asked about one step.
    """
    if prepared.fidelity == "message":
        return simulate_prepared(prepared).step_s
    _, _, bounds = timed(
        prepared.program,
        prepared.queues,
        prepared.matching,
        prepared.plan.seconds,
        prepared.steps,
    )
    return np.asarray(np.diff(bounds, axis=0).max(axis=1))


def _by_messages(prepared: Prepared, *, keep: bool) -> tuple[Times, Network]:
    """The times at fidelity ``message``, and the network in the end; ``keep``: all messages."""
    queued, matching, steps = prepared.queues, prepared.matching, prepared.steps
    empty = empty_network(prepared.cluster, keep=keep)
    streams = queued.queue_of.shape[1] - 1
    shared = prepared.on_cores
    cores = idle_cores(prepared.cluster, prepared.devices, streams) if shared else no_cores()
    ends, network = run_steps(
        queued, matching, prepared.plan, empty, prepared.cluster, steps, cores
    )
    ranks = np.arange(queued.class_of.size, dtype=np.int32)
    bounds = np.zeros((steps + 1, ranks.size))
    for rank, kind in enumerate(queued.class_of.tolist()):
        first, end = queued.queue_of[kind, :2]
        if end > first:  # else its steps take no time
            last = queued.rank_ops_of[rank] + queued.queue[end - 1]
            bounds[1:, rank] = ends[:, last]
    return Times(queued, ranks, ready_times(queued, matching, ends), ends, bounds), network


def _ideal_step_s(prepared: Prepared) -> float:
    """What the step takes where calls take no time: on as many cores, where ranks share them."""
    if not prepared.on_cores:
        return prepared.ideal.step_s
    free = what_if(prepared.cluster, parse_what_if(f"{IDEAL},reduction=inf"))
    times, _ = _by_messages(prepare(prepared.asked, replace(free, calls={})), keep=False)
    return float(np.diff(times.bounds, axis=0)[-1].max())


def _messages(network: Network, devices: Ints, cluster: Cluster) -> NDArray[Any]:
    """The kept messages, between ranks rather than devices."""
    rank_on = np.zeros(cluster.devices, np.int32)
    rank_on[devices] = np.arange(devices.size, dtype=np.int32)
    kept = kept_of(network)
    rows = np.empty(kept.size, MESSAGE)
    for field in ("sent", "received", "bytes"):
        rows[field] = kept[field]
    rows["src"], rows["dst"] = rank_on[kept["src_device"]], rank_on[kept["dst_device"]]
    return rows


def _point_to_point(
    program: Program, matching: Matching, rows: NDArray[Any], some: Ints
) -> NDArray[Any]:
    """The messages of Sends between the ranks ``some``, from their intervals, dtype INTERVAL."""
    ends = message_ends(program, matching, some)
    steps = int(rows["step"].max(initial=-1)) + 1
    if not 0 < ends.size * steps <= MOST_MESSAGES:
        return np.empty(0, MESSAGE)
    both = np.stack([rows["start"], rows["end"]], axis=1)
    found = []
    for step in range(steps):
        times, first = {}, 0
        for rank in some.tolist():
            ops = len(program.lists[program.class_of[rank]])
            begin = first + step * (ops + 1) + 1  # the step's own interval comes before its ops
            times[rank] = both[begin : begin + ops]
            first += steps * (ops + 1)
        found.append(messages_of_step(ends, times))
    return np.concatenate(found)


def _rank_figures(program: Program, times: Times, bubble: float) -> NDArray[Any]:
    """The last step of every rank, dtype RANK."""
    begin, end = times.bounds[-2:]
    found = np.zeros(begin.size, PHASES)
    totals = divide(times.queues, phases_of(program), times.ready, times.ends, begin, end)
    for number, field in enumerate(("compute", "transfer", "update", "other", "dependency")):
        found[field] = totals[:, number]
    found["exposed_comm"] = found["transfer"] + found["dependency"]
    give_reasons(found, np.zeros(begin.size, np.int32), bubble)
    figures = np.zeros(program.ranks, RANK)
    figures["rank"], figures["step_s"] = np.arange(program.ranks), (end - begin)[times.like]
    for field in ("compute", "exposed_comm", "update", "other", *EXPOSED):
        figures[f"{field}_s"] = found[field][times.like]
    return figures
