"""How far the strategies' trainings lie apart: from each other, and from one process.

    python benchmarks/same_training.py [--steps 20] [--precisions fp32,bf16,fp16] [--ranks 2,4]

The reference is one process on the whole global batch, in fp32. Losses: largest relative
difference over the steps. Weights: largest ‖a − b‖/‖b‖ over the tensors. The keys' bias is left
out of that and shown on its own, as its largest absolute difference: the softmax does not see it,
its gradient is zero in exact arithmetic, and what AdamW makes of the rounding is noise.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
from as_rank import as_rank
from numpy.typing import NDArray

from steptime.launch import run_ranks
from steptime.strategies import live_strategies
from steptime.world import detect


def rank(steps: int, precision: str, names: list[str], folder: Path) -> None:
    import torch
    import torch.distributed as dist

    from steptime.train.job import Job, start_training
    from steptime.train.loop import training_steps
    from steptime.train.options import DataOptions, JobOptions, ModelOptions, TrainOptions
    from steptime.train.tensors import mean_over_ranks
    from steptime.train.tokens import load_tokens

    def work() -> None:
        options = JobOptions(
            model=ModelOptions(),
            data=DataOptions(),
            train=TrainOptions(),
            precision=precision,  # type: ignore[arg-type]
            compiled=False,
            steps=steps,
            warmup=0,
            seed=0,
        )
        tokens = load_tokens(options.data)
        config = options.model.config(tokens.vocabulary)
        job = Job(options, config, config.context, tokens, torch.device("cpu"))
        for name in names:
            training = start_training(job, live_strategies()[name], timed=False)
            losses = [mean_over_ranks(outcome.loss) for outcome in training_steps(training, 0)]
            training.sync.settle()
            if dist.get_rank() == 0:
                flat = training.flat
                weights = {
                    slot.name: flat.parameters[slot.span.slice].float().numpy()
                    for slot in flat.layout.slots
                }
                np.savez(folder / f"{dist.get_world_size()}-{precision}-{name}.npz",
                         losses=losses, **weights)  # fmt: skip

    as_rank(work, timeout_s=300)


def compare(folder: Path, reference: dict[str, NDArray[np.float32]], run: str) -> str:
    found = dict(np.load(folder / f"{run}.npz"))
    losses = np.abs(found["losses"] / reference["losses"] - 1).max()
    weights = keys = 0.0
    for name in reference.keys() - {"losses"}:
        apart, right = found[name] - reference[name], reference[name]
        if name.endswith("qkv.bias"):
            of_keys = np.arange(len(right)) // (len(right) // 3) == 1
            keys = max(keys, float(np.abs(apart[of_keys]).max()))
            apart, right = apart[~of_keys], right[~of_keys]
        weights = max(weights, float(np.linalg.norm(apart) / np.linalg.norm(right)))
    return f"{losses:9.1e} {weights:9.1e} {keys:9.1e}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--precisions", default="fp32,bf16,fp16")
    parser.add_argument("--ranks", default="2,4")
    options = parser.parse_args()
    if detect(os.environ) is not None:
        rank(
            options.steps,
            options.precisions,
            os.environ["SAME_TRAINING_NAMES"].split(","),
            Path(os.environ["SAME_TRAINING_FOLDER"]),
        )
        return 0
    with tempfile.TemporaryDirectory() as folder:

        def train(ranks: int, precision: str, names: list[str]) -> None:
            words = ["--steps", str(options.steps), "--precisions", precision]
            environ = os.environ | {
                "SAME_TRAINING_NAMES": ",".join(names),
                "SAME_TRAINING_FOLDER": folder,
            }
            run_ranks([sys.argv[0], *words], ranks, 1, environ)

        train(1, "fp32", ["replicated"])
        reference = dict(np.load(Path(folder) / "1-fp32-replicated.npz"))
        print(f"{'ranks':>5} {'':<4} {'strategy':<18} {'loss':>9} {'weights':>9} {'key bias':>9}")
        for ranks in map(int, options.ranks.split(",")):
            for precision in options.precisions.split(","):
                train(ranks, precision, list(live_strategies()))
                for name in live_strategies():
                    row = compare(Path(folder), reference, f"{ranks}-{precision}-{name}")
                    print(f"{ranks:>5} {precision:<4} {name:<18} {row}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
