"""The nine-rank run of MareNostrum 5, simulated: what was measured, and what else could have been.

    python benchmarks/nine_ranks.py [--svg docs/nine-ranks.svg]

Prints the tables of docs/nine-ranks.md, and draws its picture. Nothing here is timed: the figures
are simulated, at fidelity ``message``, and the same on every machine.
"""

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from steptime.cluster import Cluster, cluster_named
from steptime.collectives import algorithms, schedule
from steptime.collectives.selection import blocks_for
from steptime.program import Collective, Compute, Program
from steptime.report.palette import PARTS, Part
from steptime.simulate.carry import carry
from steptime.simulate.simulation import Simulation
from steptime.simulate.step import simulate
from steptime.timeline import Phase
from steptime.workloads.presets import Preset, preset_named, seconds_of

STEPS = 3  # the last is what a step takes once each reaches into the next
DRAWN = ("server", "server_trees", "sharded", "overlapped_sharded")
ALL_REDUCES = ("ring", "two_level", "rabenseifner", "circulant", "recursive_doubling")


def gradient_bytes(program: Program) -> int:
    return sum(op.nbytes for op in program.lists[0] if isinstance(op, Collective))


def measured_run(preset: Preset, runs: dict[str, Simulation]) -> None:
    print(f"{'':<22} measured  simulated  differs")
    for row in preset.published:
        simulated = seconds_of(row.what, runs[row.case].timeline)
        print(
            f"{row.label:<22} {1e3 * row.seconds:5.0f} ms  {1e3 * simulated:6.1f} ms"
            f"  {100 * (simulated / row.seconds - 1):+5.1f} %   {row.how}"
        )


def candidates(preset: Preset, cluster: Cluster) -> None:
    """What reduce and broadcast would take with every algorithm, from and to the server."""
    nbytes = gradient_bytes(preset.case("replicated").program)
    devices = cluster.placed(9)
    free = replace(cluster, device=replace(cluster.device, reduction=np.inf))
    for kind in ("reduce", "broadcast"):
        (published,) = (row for row in preset.published if row.what == kind)
        print(f"\n{kind:<22} measured about {1e3 * published.seconds:.0f} ms")
        for name, algorithm in algorithms(kind).items():
            plan = schedule(algorithm, 9, root=8, blocks=blocks_for(nbytes))
            moved, added = (carry(plan, on, devices, nbytes).seconds for on in (free, cluster))
            adding = f", and {1e3 * added:5.1f} ms with the adding" if kind == "reduce" else ""
            print(f"  {name:<22} {1e3 * moved:5.1f} ms{adding}")


def strategies(runs: dict[str, Simulation]) -> None:
    print(f"\n{'':<22} {'step':>8} {'compute':>8} {'exposed':>8} {'update':>7}  busiest NIC")
    for name, run in runs.items():
        mean = {
            part: run.ranks[part].mean() for part in ("compute_s", "exposed_comm_s", "update_s")
        }
        nics = run.link_bytes[-10:]  # of each node, out and in
        print(
            f"{name:<22} {1e3 * run.step_s[-1]:5.1f} ms {1e3 * mean['compute_s']:5.1f} ms"
            f" {1e3 * mean['exposed_comm_s']:5.1f} ms {1e3 * mean['update_s']:4.1f} ms"
            f"  {nics.max() / 1e6:5.0f} MB"
        )


def limits(preset: Preset, cluster: Cluster, nodes: int = 4) -> dict[str, float]:
    """What no strategy of the eight workers can be faster than, in seconds."""
    bandwidth = float(cluster.links.bandwidth[-1])
    between = 2 * (nodes - 1) / nodes / bandwidth
    program = preset.case("overlapped_sharded").program
    table = max(op.nbytes for op in program.lists[0] if isinstance(op, Collective))
    working = sum(op.seconds or 0 for op in program.lists[0] if isinstance(op, Compute))
    network = between * gradient_bytes(preset.case("replicated").program)
    return {
        "the network alone: 2(n - 1)/n of the gradients through each of n = 4 nodes": network,
        "a worker alone: forward, backward and the update of its shard": working,
        "both, with all but the tied table behind computing": working + between * table,
    }


def placements(preset: Preset, cluster: Cluster) -> None:
    """What an all_reduce takes where neighbouring ranks share a node, and where they do not."""
    nbytes = gradient_bytes(preset.case("replicated").program)
    block = cluster.placed(8)
    turn = np.concatenate([block[::2], block[1::2]])
    print(f"\n{'all_reduce':<22} two a node  in turn over the nodes")
    for name in ALL_REDUCES:
        times = []
        for devices in (block, turn):
            hosts = tuple(cluster.host_of[devices].tolist())
            plan = schedule(algorithms("all_reduce")[name], 8, hosts=hosts)
            times.append(f"{1e3 * carry(plan, cluster, devices, nbytes).seconds:6.1f} ms")
        print(f"{name:<22} {times[0]:>10}  {times[1]}")


def nic_use(run: Simulation, cluster: Cluster) -> Iterator[tuple[str, float, NDArray[np.float64]]]:
    """How much of two nodes' NICs is used: label, width of a bin in seconds, shape (bins,)."""
    series = run.link_series
    assert series
    for label, link in (
        ("into the server's node", "switch → host0"),
        ("out of it", "host0 → switch"),
        ("into a worker's node", "switch → host1"),
        ("out of it", "host1 → switch"),
    ):
        used = series.utilisation[:, series.links == cluster.links.names.index(link)]
        yield label, series.width, used[:, 0] if used.size else np.zeros(len(used))


def busy(run: Simulation) -> Iterator[tuple[Part, list[tuple[float, float]]]]:
    """When a worker computes, waits for communication and updates: starts and lengths, in ms."""
    rows = run.timeline.intervals
    rows = rows[rows["rank"] == 0]
    # Later ones cover earlier ones: communication shows where nothing hides it.
    for part in (PARTS[1], PARTS[0], PARTS[2]):
        own = rows[rows["phase"] == part.phase]
        yield part, [(1e3 * row["start"], 1e3 * (row["end"] - row["start"])) for row in own]


def draw(preset: Preset, cluster: Cluster, path: Path) -> None:
    mpl.rcParams["svg.hashsalt"] = "steptime"
    figure, axes = plt.subplots(
        len(DRAWN), 1, figsize=(9, 1.7 * len(DRAWN)), sharex=True, layout="constrained"
    )
    for axis, name in zip(axes, DRAWN, strict=True):
        case = preset.case(name)
        steps = STEPS if name.startswith("overlapped") else 1  # one alone is drawn the finest
        run = simulate(case.program, cluster, algorithms=case.algorithms, steps=steps)
        rows = run.timeline.intervals[run.timeline.intervals["phase"] == Phase.STEP]
        last = rows[(rows["rank"] == 0) & (rows["step"] == steps - 1)][0]
        start, step = 1e3 * last["start"], 1e3 * run.step_s[-1]
        for part, spans in busy(run):
            moved = [(begin - start, length) for begin, length in spans]
            axis.broken_barh(moved, (4.1, 0.8), color=part.color, label=part.label)
        labels = ["a worker"]
        for place, (label, width, used) in enumerate(nic_use(run, cluster)):
            labels.append(label)
            bottom = 3.1 - place
            extent = (-start, 1e3 * width * len(used) - start, bottom, bottom + 0.8)
            axis.imshow(
                used[None], extent=extent, aspect="auto", cmap="Greys", vmin=0, vmax=1, zorder=1
            )
            axis.add_patch(Rectangle((0, bottom), step, 0.8, fill=False, linewidth=0.4, zorder=2))
        axis.set_yticks([4.5, 3.5, 2.5, 1.5, 0.5], labels, fontsize=7)
        axis.set_ylim(0, 5)
        axis.set_xlim(0, 760)
        axis.axvspan(step, 760, color="white", zorder=3)  # the next step
        axis.axvline(step, color="black", linewidth=1, zorder=4)
        axis.text(step + 6, 2.5, f"{step:.0f} ms", va="center", zorder=5)
        axis.set_title(f"{name}: {case.summary}", loc="left", fontsize=9)
        axis.spines[["top", "right"]].set_visible(False)
    axes[1].legend(fontsize=8, loc="center right")
    axes[-1].set_xlabel("ms of a step, simulated; grey: share of 10 GB/s in use")
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--svg", type=Path, help="draw the picture into this file")
    options = parser.parse_args()
    preset = preset_named("marenostrum5-nine")
    cluster = cluster_named(preset.cluster)
    runs = {
        case.name: simulate(case.program, cluster, algorithms=case.algorithms, steps=STEPS)
        for case in preset.cases
    }
    measured_run(preset, runs)
    candidates(preset, cluster)
    strategies(runs)
    print("\nlimits, computed")
    for what, seconds in limits(preset, cluster).items():
        print(f"  {1e3 * seconds:5.1f} ms  {what}")
    placements(preset, cluster)
    if options.svg:
        draw(preset, cluster, options.svg)
        print(f"\npicture: {options.svg}")


if __name__ == "__main__":
    main()
