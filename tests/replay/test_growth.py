"""A thousand steps take no more memory than a few."""

from pathlib import Path

import numpy as np
import pytest

from ranks import on_ranks
from steptime.host_memory import resident_bytes
from steptime.program import Collective, Compute, Op, Program, Recv, Send, Wait
from steptime.replay.device import Device
from steptime.replay.replay import replay
from steptime.replay.standin import Poll

STEPS = 1000


def small() -> Program:
    ops: tuple[Op, ...] = (
        Compute(name="forward", seconds=0.0),
        Send(name="send", axis="data", by=1, nbytes=4096, stream="out", after=(0,)),
        Recv(name="receive", axis="data", by=1, nbytes=4096, stream="in"),
        Wait(name="there", after=(1, 2)),
        Collective(name="sum", kind="all_reduce", group=("data",), nbytes=1 << 16, after=(3,)),
        Wait(name="summed", after=(4,)),
    )
    return Program(name="small", axes={"data": 2}, lists=(ops,), class_of=np.zeros(2, np.int32))


def grown() -> tuple[int, int]:
    """By how many bytes a rank has grown over the steps, and how many intervals it has kept."""
    from steptime.replay.torch_transport import TorchReplayTransport

    held = []

    def compute(seconds: float, poll: Poll, _: object) -> None:
        del seconds, poll
        held.append(resident_bytes())

    how = {"compute": compute, "device": Device()}
    done = replay(small(), TorchReplayTransport(), steps=STEPS, warmup=100, **how)  # type: ignore[arg-type]
    return held[-1] - held[100], done.rows.size


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["gloo", "steptime"])
def test_a_thousand_steps_do_not_grow(
    backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # torch's own flight recorder keeps the last 2,000 calls, some 2 MB, unless it is told not to.
    monkeypatch.setenv("TORCH_FR_BUFFER_SIZE", "1")
    for bytes_, rows in on_ranks(2, grown, tmp_path, backend=backend):
        assert bytes_ < 1e6
        assert 0 < rows <= 5_000
