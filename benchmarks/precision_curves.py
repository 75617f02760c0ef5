"""Loss curves of the precisions: the chart and the table of docs/mixed-precision.md.

    python benchmarks/precision_curves.py [--steps 300] [--seed 0] [--out docs/precision.svg]

Trains the nano model once in each mode, all from the same weights on the same batches, on one rank
of one thread, in three cases: as usual; with a loss that is one part of 65,536, as of so many
micro-batches or ranks, which fp16 needs scaling for; and at a small constant learning rate, whose
updates are below the distance between bf16 numbers. What is compared is the mean of the last
twentieth of the steps.
"""

import argparse
import tempfile
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import torch
import torch.distributed as dist

from steptime.strategies import strategy_named
from steptime.train.data import Batches
from steptime.train.loop import training_steps
from steptime.train.options import DataOptions, ModelOptions, TrainOptions
from steptime.train.precision import LossScale, precision_of
from steptime.train.tokens import load_tokens
from steptime.train.training import build_training, new_model
from steptime.workloads.precision import PrecisionName, Rounding

CONTEXT, BATCH = 64, 8
USUAL, SMALL = 2e-3, 1e-4
PART = LossScale(scale=2.0**-16, patience=1 << 40)


@dataclass(frozen=True)
class Mode:
    """A training, and how its curve is drawn: Okabe–Ito colours, told apart by dashes as well."""

    name: str
    precision: PrecisionName
    colour: str
    dash: object = "-"
    rounding: Rounding = "nearest"
    scale: LossScale | None = None


FP32 = Mode("fp32", "fp32", "#000000")
BF16 = Mode("bf16", "bf16", "#E69F00", "--")
FP16 = Mode("fp16, scaled", "fp16", "#0072B2", ":")
NEAREST = Mode("bf16-params, nearest", "bf16-params", "#D55E00", (0, (6, 2)))
CHANCE = Mode(
    "bf16-params, stochastic", "bf16-params", "#009E73", (0, (3, 1, 1, 1)), rounding="stochastic"
)
CASES: dict[str, tuple[float, bool, tuple[Mode, ...]]] = {
    "as usual": (
        USUAL,
        False,
        (
            FP32,
            BF16,
            FP16,
            Mode("fp8-emulated", "fp8-emulated", "#CC79A7", (0, (1, 1))),
            NEAREST,
            CHANCE,
        ),
    ),
    "65,536 parts of a loss": (
        USUAL,
        False,
        (FP32, FP16, replace(FP16, name="fp16, unscaled", colour="#D55E00", scale=PART)),
    ),
    "a small, constant rate": (SMALL, True, (FP32, BF16, NEAREST, CHANCE)),
}


@cache
def losses(mode: Mode, rate: float, constant: bool, steps: int, seed: int) -> list[float]:
    """The loss of each step, in nats a byte."""
    config = ModelOptions(tokens=CONTEXT).config(vocabulary=256)
    training = build_training(
        new_model(config, seed, torch.device("cpu")),
        Batches(load_tokens(DataOptions()), CONTEXT, BATCH, rank=0, ranks=1, seed=seed),
        strategy_named("overlapped_sharded"),
        precision_of(mode.precision, "fp32", mode.rounding),
        TrainOptions(batch=BATCH, lr_schedule="constant" if constant else "cosine"),
        peak_learning_rate=rate,
        steps=steps,
    )
    return [float(outcome.loss) for outcome in training_steps(training, 0, mode.scale)]


def smooth(curve: list[float], over: int) -> list[float]:
    """Means of so many steps up to each."""
    return [
        sum(part) / len(part)
        for n in range(len(curve))
        if (part := curve[max(0, n - over + 1) : n + 1])
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("docs/precision.svg"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    mpl.rcParams["svg.hashsalt"] = "steptime"
    figure, panels = plt.subplots(
        2, 3, figsize=(11, 5), sharex=True, height_ratios=(3, 1), layout="constrained"
    )
    last = max(1, options.steps // 20)
    print("| case | mode | loss at the end | from fp32 |\n|---|---|--:|--:|")
    with tempfile.TemporaryDirectory() as folder:
        dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=0, world_size=1)
        for (case, (rate, constant, modes)), (whole, apart) in zip(
            CASES.items(), panels.T, strict=True
        ):
            reference: list[float] = []
            for mode in modes:
                curve = smooth(losses(mode, rate, constant, options.steps, options.seed), last)
                reference = reference or curve
                off = [100 * (a - b) / b for a, b in zip(curve, reference, strict=True)]
                how = {"color": mode.colour, "linestyle": mode.dash}
                whole.plot(range(1, len(curve) + 1), curve, label=mode.name, **how)
                apart.plot(range(1, len(curve) + 1), off, **how)
                print(f"| {case} | {mode.name} | {curve[-1]:.4f} | {off[-1]:+.2f} % |", flush=True)
            whole.set_title(case)
            whole.legend(frameon=False)
            apart.set_xlabel("step")
        dist.destroy_process_group()
    panels[0, 0].set_ylabel("loss, nats a byte")
    panels[1, 0].set_ylabel("from fp32, %")
    for axes in panels.flat:
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.3)
    figure.savefig(options.out, metadata={"Date": None})


if __name__ == "__main__":
    main()
