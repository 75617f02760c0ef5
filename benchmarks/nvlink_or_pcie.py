"""The same training step on one 8-GPU host with NVLink, and with PCIe of each kind.

    python benchmarks/nvlink_or_pcie.py [--out docs/nvlink-or-pcie.svg]

Prints, for each host, the bus bandwidth of a ring all-reduce (simulated) beside published ones,
and a step of GPT-2 as DDP does it: bf16, gradients in bf16, buckets of 25 MiB that travel while
backward runs, 8 rows of 1,024 tokens a GPU. Nothing is measured, so the figures are the same
everywhere.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt

from steptime.cluster.files import cluster_named
from steptime.collectives.algorithm import algorithm_named, schedule
from steptime.report.palette import PARTS
from steptime.simulate.carry import carry

EXAMPLES = Path(__file__).parent.parent / "examples" / "clusters"
RANKS = 8
MODELS = ("gpt2-124M", "gpt2-1558M")
SIZES = {"64 MiB": 64 << 20, "256 MiB": 256 << 20, "1 GiB": 1 << 30, "8 GiB": 8 << 30}


@dataclass(frozen=True)
class Host:
    """``published``: who measured which busbw on such a host, in GB/s, at each of SIZES."""

    cluster: str
    marks: str
    published: Mapping[str, Sequence[float | None]]


HOSTS = (
    Host(
        "dgx-h100",
        "NV18",
        {  # ml-engineering, network/README.md
            "8 H200, NVLS": (346.5, 436.2, 463.6, 477.5),
            "8 H200, no NVLS": (None, None, None, 365.6),
        },
    ),
    Host(
        "dgx-a100",
        "NV12",
        {  # ml-engineering, network/README.md; vTrain, trace/a100
            "8 A100, nccl-tests": (171.5, 194.1, 229.0, 234.6),
            "8 A100, vTrain": (202.5, 217.3, 229.4, None),
        },
    ),
    Host("pcie-switch-8", "PIX, PXB", {}),
    Host(str(EXAMPLES / "pcie-one-socket.toml"), "PHB, NODE", {}),
    Host("pcie-host-bridge-8", "PHB, NODE, SYS", {}),
)


def busbw(host: Host, nbytes: int) -> float:
    """GB/s of a ring all-reduce as nccl-tests counts it, simulated."""
    cluster = cluster_named(host.cluster)
    ring = schedule(algorithm_named("all_reduce", "ring"), RANKS)
    seconds = carry(ring, cluster, cluster.placed(RANKS), nbytes).seconds
    return nbytes / seconds * 2 * (RANKS - 1) / RANKS / 1e9


def step(host: Host, model: str) -> dict[str, Any]:
    """What steptime simulate says of one step, in seconds."""
    words = ["--cluster", host.cluster, "--strategy", "overlapped", "--precision", "bf16"]
    words += ["--reduce-dtype", "bf16", "--algorithm", "all_reduce=ring", "--json", "--quiet"]
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, "-m", "steptime", "simulate", model, *words, "--out", out]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    figures: dict[str, Any] = json.loads(done.stdout)["strategies"]["overlapped"]
    return figures


def print_bandwidths() -> None:
    print(f"{'busbw of a ring all-reduce, GB/s':<41}" + "".join(f"{size:>9}" for size in SIZES))
    for host in HOSTS:
        rates = "".join(f"{busbw(host, nbytes):9.3g}" for nbytes in SIZES.values())
        print(f"{host.marks:<15}{Path(host.cluster).stem:<19} sim.   {rates}")
        for who, published in host.published.items():
            rates = "".join(f"{rate:9.3g}" if rate else f"{'-':>9}" for rate in published)
            print(f"{'':15}{who:<20}publ. {rates}")


def print_steps(steps: Mapping[str, list[dict[str, Any]]]) -> None:
    for model, found in steps.items():
        print(f"\n{model + ', simulated':<25} step compute update exposed  step against one")
        print(f"{'':<25}   ms      ms     ms comm ms  without exposed")
        for host, figures in zip(HOSTS, found, strict=True):
            total = figures["step_time_s"]["median"]
            parts = [figures[name] for name in ("compute_s", "exposed_comm_s", "update_s")]
            compute, exposed, update = (f"{1e3 * seconds:.3g}" for seconds in parts)
            slower = total / (total - figures["exposed_comm_s"])
            print(
                f"{host.marks:<25} {1e3 * total:4.3g} {compute:>7} {update:>6} {exposed:>7} "
                f"{slower:16.2f}"
            )


def draw(steps: Mapping[str, list[dict[str, Any]]], path: Path) -> None:
    mpl.rcParams["svg.hashsalt"] = "steptime"
    figure, panels = plt.subplots(1, len(steps), figsize=(9, 3), sharey=True, layout="constrained")
    labels = [host.marks for host in HOSTS]
    for axes, (model, found) in zip(panels, steps.items(), strict=True):
        left = [0.0] * len(found)
        for part in PARTS[:3]:
            widths = [1e3 * figures[part.field] for figures in found]
            axes.barh(labels, widths, left=left, color=part.color, label=part.label, height=0.65)
            left = [a + b for a, b in zip(left, widths, strict=True)]
        for place, total in enumerate(left):
            axes.text(total, place, f" {total:.3g}", va="center", fontsize=9)
        axes.set_title(f"{model} on 8 GPUs", loc="left", fontsize=11)
        axes.set_xlabel("ms a step, simulated")
        axes.set_xlim(0, 1.12 * max(left))
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].invert_yaxis()
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("docs/nvlink-or-pcie.svg"))
    options = parser.parse_args()
    print_bandwidths()
    steps = {model: [step(host, model) for host in HOSTS] for model in MODELS}
    print_steps(steps)
    draw(steps, options.out)


if __name__ == "__main__":
    main()
