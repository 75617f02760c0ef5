"""Loss curves of the precisions on one chart.

    python benchmarks/precision.py [--steps 200] [--out docs/precision.svg]

Trains the nano model once in each mode, from the same seed on the same batches.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt

MODES = {  # Okabe–Ito colours, told apart by dashes as well
    "fp32": (["--precision", "fp32"], "#000000", "-"),
    "bf16": (["--precision", "bf16"], "#E69F00", "--"),
    "bf16, reduced in bf16": (
        ["--precision", "bf16", "--reduce-dtype", "bf16"],
        "#009E73",
        (0, (6, 2, 1, 2)),
    ),
    "fp16, scaled": (["--precision", "fp16"], "#0072B2", ":"),
}


def losses(steps: int, options: list[str]) -> list[float]:
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, "-m", "steptime", "train", "--steps", str(steps)]
        done = subprocess.run(
            [*command, "--ranks", "2", "--json", "--quiet", "--out", out, *options],
            stdout=subprocess.PIPE,
            check=True,
        )
    (figures,) = json.loads(done.stdout)["strategies"].values()
    curve: list[float] = figures["loss"]
    return curve


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--out", type=Path, default=Path("docs/precision.svg"))
    options = parser.parse_args()
    mpl.rcParams["svg.hashsalt"] = "steptime"
    figure, (whole, apart) = plt.subplots(
        2, 1, figsize=(8, 5), sharex=True, height_ratios=(3, 1), layout="constrained"
    )
    reference: list[float] = []
    for name, (extra, colour, dash) in MODES.items():
        curve = losses(options.steps, extra)
        reference = reference or curve
        difference = [100 * (a - b) / b for a, b in zip(curve, reference, strict=True)]
        whole.plot(range(1, len(curve) + 1), curve, color=colour, linestyle=dash, label=name)
        apart.plot(range(1, len(curve) + 1), difference, color=colour, linestyle=dash)
        worst = max(map(abs, difference))
        print(f"{name:<22} loss {curve[0]:.4f} → {curve[-1]:.4f}, at most {worst:.2f} % from fp32")
    whole.set_ylabel("loss, nats a byte")
    whole.legend(frameon=False)
    apart.set_ylabel("from fp32, %")
    apart.set_xlabel("step")
    for axes in (whole, apart):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.3)
    figure.savefig(options.out, metadata={"Date": None})


if __name__ == "__main__":
    main()
