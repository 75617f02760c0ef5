"""The bytes of a step, of a training that looks at held-out text in between."""

from pathlib import Path

import pytest

from ranks import on_ranks
from steptime.strategies import strategy_named
from steptime.train.job import Job, prepare_job
from steptime.train.options import DataOptions, JobOptions, ModelOptions, RunOptions, TrainOptions
from steptime.train.run import run_training


def job() -> Job:
    options = JobOptions(
        model=ModelOptions(layers=1, heads=2, hidden=16, tokens=16),
        data=DataOptions(),
        train=TrainOptions(batch=4, clip=0.0),
        precision="fp32",
        compiled=False,
        steps=3,
        warmup=1,
        seed=0,
    )
    return prepare_job(options, on_gpu=False)


def sent(name: str, out: Path) -> int:
    run = RunOptions(val_every=2, val_batches=2)
    trained = run_training(job(), strategy_named(name), run, out, lambda _: None)
    return trained.record.traffic.sent


@pytest.mark.slow
def test_what_zero_3_gathers_for_held_out_text_is_no_part_of_its_steps(tmp_path: Path) -> None:
    """Gathered for forward and for backward, and scattered: three halves of an all_reduce's two."""
    for name in ("replicated", "zero3"):
        (tmp_path / name).mkdir()
    plain, _ = on_ranks(2, sent, tmp_path / "replicated", "replicated", tmp_path)
    sharded, _ = on_ranks(2, sent, tmp_path / "zero3", "zero3", tmp_path)
    assert abs(sharded / plain - 1.5) < 0.01
