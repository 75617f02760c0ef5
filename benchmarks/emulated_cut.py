"""A host that is cut off in the middle of a training: torchrun goes on, to the same parameters.

    python benchmarks/emulated_cut.py [--runs 1] [--steps 60]

Two emulated hosts train under torchrun's elastic agents, with a checkpoint every five steps. At a
random moment the link of one is cut for longer than ranks wait for one another: they
raise, the agents start them again once they reach each other, and they go on from the last
checkpoint that is whole. Compared is the hash of all parameters after the last step with that of
the same training without a fault.
"""

import argparse
import json
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CLUSTER = """
title = "Two hosts"
source = "a test of faults"
[device]
name = "a core"
flops = { fp32 = "50GFLOP/s" }
memory = "2GB"
memory_bandwidth = "10GB/s"
[host]
count = 2
[nic]
bandwidth = "25MB/s"
latency = "0us"
[network]
kind = "switch"
"""
TIMEOUT_S, CUT_S = 6, 15


def train(folder: Path, name: str, steps: int, faults: str) -> tuple[str, float, str]:
    """The hash of the parameters, the seconds it took, and what was printed."""
    file = folder / "cluster.toml"
    file.write_text(CLUSTER)
    torchrun = str(Path(sys.executable).with_name("torchrun"))
    began = time.monotonic()
    done = subprocess.run(
        [
            *(sys.executable, "-m", "steptime", "emulate", str(file), "--faults", faults, "--"),
            *(torchrun, "--rdzv-backend", "c10d", "--max-restarts", "5", "--nproc-per-node", "1"),
            *("-m", "steptime", "train", "gpt2-nano", "--steps", str(steps)),
            *("--checkpoint-every", "5", "--resume", "auto", "--timeout", f"{TIMEOUT_S}s"),
            *("--seed", "1", "--out", str(folder / name)),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    if done.returncode:
        raise SystemExit(done.stdout[-1000:] + done.stderr[-3000:])
    record = json.loads((folder / name / "run.json").read_text())
    (strategy,) = record["strategies"].values()
    (parameters,) = set(strategy["parameter_hash"])
    return parameters, time.monotonic() - began, done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    chance = random.Random(asked.seed)  # noqa: S311
    same = 0
    with tempfile.TemporaryDirectory(prefix="steptime-") as temporary:
        folder = Path(temporary)
        wanted, took_s, _ = train(folder, "undisturbed", asked.steps, "")
        print(f"undisturbed: {took_s:.0f} s, parameters {wanted[:12]}", flush=True)
        for number in range(asked.runs):
            at_s = chance.uniform(0.35, 0.7) * took_s
            fault = f"host1 down at {at_s:.1f}s for {CUT_S}s"
            found, seconds, printed = train(folder, f"cut-{number}", asked.steps, fault)
            again = re.findall(r"goes on from \S+_0*(\d+)", printed)
            same += found == wanted
            print(
                f"{fault}: {seconds:.0f} s, went on from step {', '.join(again) or 'none'}, "
                f"parameters {'the same' if found == wanted else found[:12]}",
                flush=True,
            )
    print(f"{same} of {asked.runs} recovered to the same parameters")
    raise SystemExit(0 if same == asked.runs else 1)


if __name__ == "__main__":
    main()
