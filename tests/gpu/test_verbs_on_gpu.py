"""The verbs that run on a GPU: one rank on NCCL."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU is at hand")

TRAIN = ["train", "gpt2-nano", "--ranks", "1", "--steps", "10", "--batch", "8"]


def answer(*words: str, cwd: Path) -> Any:
    command = [sys.executable, "-m", "steptime", *words, "--json", "--out", str(cwd / words[0])]
    ended = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=240, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


@pytest.mark.parametrize("strategy", ["overlapped_sharded", "replicated"])
def test_a_training_has_the_losses_of_a_cpu(tmp_path: Path, strategy: str) -> None:
    options = ["--precision", "fp32", "--strategy", strategy]

    losses = [
        next(
            iter(
                answer(*TRAIN, *options, "--backend", backend, cwd=tmp_path)["strategies"].values()
            )
        )["loss"]
        for backend in ("nccl", "gloo")
    ]

    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_a_training_tells_its_mfu(tmp_path: Path) -> None:
    found = answer(*TRAIN, "--backend", "nccl", "--precision", "bf16", cwd=tmp_path)

    (figures,) = found["strategies"].values()
    assert 0 < figures["mfu"] < 1


def test_a_training_shards_its_state(tmp_path: Path) -> None:
    found = answer(*TRAIN, "--backend", "nccl", "--accumulate", "2", "--zero", "1", cwd=tmp_path)

    (figures,) = found["strategies"].values()
    assert figures["step_time_s"]["median"] > 0


def test_bench_measures_nccl(tmp_path: Path) -> None:
    found = answer(
        "bench", "all_reduce", "--ranks", "1", "--backend", "nccl", "--maxbytes", "1MiB",
        cwd=tmp_path,
    )  # fmt: skip

    assert all(row["in_place"]["wrong"] == 0 for row in found["rows"])


def test_topo_names_the_gpu(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "steptime", "topo"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240)

    assert torch.cuda.get_device_name(0).removeprefix("NVIDIA ").split()[0] in ended.stdout


def test_a_proxy_multiplies_matrices(tmp_path: Path) -> None:
    found = answer(
        "proxy", "gpt2-nano", "--ranks", "1", "--backend", "nccl", "--compute", "busy",
        "--compute-time", "20ms", cwd=tmp_path,
    )  # fmt: skip

    assert found["step_time_s"]["median"] == pytest.approx(20e-3, rel=0.3)


def test_strategies_are_compared(tmp_path: Path) -> None:
    found = answer(
        "compare", "gpt2-nano", "--ranks", "1", "--backend", "nccl", "--steps", "6", "--batch", "8",
        cwd=tmp_path,
    )  # fmt: skip

    assert len(found["strategies"]) > 2
