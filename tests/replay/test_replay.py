import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from program_made import everything

from ranks import on_ranks
from steptime.program import Collective, Compute, Program, Wait
from steptime.replay.device import Device
from steptime.replay.replay import RankReplay, replay
from steptime.replay.standin import nothing
from steptime.timeline import Phase

NOWHERE = Device()


def run(program: Program, **how: Any) -> RankReplay:
    from steptime.replay.torch_transport import TorchReplayTransport

    asked = {"steps": 2, "warmup": 0, "compute": nothing, "device": NOWHERE, "verify": True}
    return replay(program, TorchReplayTransport(), **(asked | how))


def every_op() -> list[tuple[int, int, float]]:
    found = []
    for dtype, verify in (("fp32", True), ("bf16", True), ("fp32", False)):
        done = run(everything(2, 2, dtype), verify=verify, messages=dtype)
        found.append((done.checked, done.wrong, float(np.diff(done.bounds).min())))
    return found


@pytest.mark.parametrize("backend", ["gloo", "steptime"])
def test_every_value_that_every_kind_of_call_moves_is_right(backend: str, tmp_path: Path) -> None:
    for rank in on_ranks(4, every_op, tmp_path, backend=backend):
        for _, wrong, least in rank:
            assert wrong == 0
            assert least > 0
        assert rank[0][0] == rank[1][0] > 4 * 70_000 * 4
        assert rank[2][0] == 0


def until_calls_are_done(_: float, poll: Callable[[], bool], __: Any) -> None:
    """Computes for as long as a call is under way, however long the other ranks take for it."""
    while poll():
        time.sleep(1e-3)


def overlapping() -> dict[str, Any]:
    """A collective beside computing that does not wait for it, then computing that does."""
    from steptime.replay.figures import gathered
    from steptime.replay.torch_transport import TorchReplayTransport

    ops = (
        Compute(name="first", seconds=0.01),
        Collective(name="sum", kind="all_reduce", group=("data",), nbytes=4096, after=(0,)),
        Compute(name="second", seconds=0.05),
        Wait(name="sum there", after=(1,)),
        Compute(name="update", seconds=0.01, phase=Phase.UPDATE),
    )
    program = Program(
        name="overlap", axes={"data": 2}, lists=(ops,), class_of=np.zeros(2, np.int32)
    )
    transport = TorchReplayTransport()
    replayed = replay(
        program, transport, steps=2, warmup=1, compute=until_calls_are_done, device=NOWHERE
    )
    everyone = gathered(transport.world, replayed, program)
    rows = replayed.rows[replayed.rows["step"] == 2]
    of = {int(row["place"]): (float(row["start"]), float(row["end"])) for row in rows}
    intervals = everyone.timeline.intervals
    lasted = (intervals["end"] - intervals["start"]) / everyone.step_s.size  # a step of a rank
    named = intervals["name"].tolist()
    return {
        "of": of,
        "lasted": {
            name: float(lasted[[one == at for one in named]].sum())
            for at, name in enumerate(everyone.timeline.names)
        },
        "spent": {what: float(of.mean()) for what, of in everyone.spent.items()},
        "steps": everyone.step_s.tolist(),
        "names": everyone.timeline.names,
        "streams": everyone.timeline.streams,
        "rows": len(everyone.timeline.intervals),
    }


def test_a_collective_runs_behind_what_does_not_wait_for_it(tmp_path: Path) -> None:
    for rank in on_ranks(2, overlapping, tmp_path):
        of = rank["of"]
        assert of[1][0] >= of[0][1]  # begins after the op that it names
        assert of[1][1] <= of[2][1]  # ends while the next computes
        assert of[4][0] >= of[1][1]
        spent, lasted = rank["spent"], rank["lasted"]
        assert spent["compute"] == pytest.approx(lasted["first"] + lasted["second"])
        assert spent["update"] == pytest.approx(lasted["update"])
        assert spent["data"] == 0  # nothing waited for the collective
        assert lasted["sum"] > 0
        assert np.shape(rank["steps"]) == (2, 2)
        assert set(rank["names"]) == {"overlap", "first", "sum", "second", "sum there", "update"}
        assert set(rank["streams"]) == {"step", "compute", "comm"}
        assert rank["rows"] == 2 * 2 * 5  # ranks, steps, the step and four ops


def awaited() -> list[bool]:
    """Whether a call was done after a wait with a limit: before the other rank came, and after."""
    from torch.distributed import PrefixStore, distributed_c10d

    from steptime.replay.torch_transport import TorchReplayTransport
    from steptime.replay.transport import GroupCall

    transport = TorchReplayTransport()
    world = transport.world
    transport.form_groups(("data",), np.array([[0, 1]]))
    store = PrefixStore("awaited", distributed_c10d._get_default_store())
    vector = transport.vector(4, transport.element("fp32"))
    begin = transport.collective(GroupCall("all_reduce", ("data",), vector, vector[:0], 0))
    if world.rank == 1:
        store.wait(["waited"])
    pending, found = [begin()], []
    if world.rank == 0:
        transport.wait_for_any(pending, 0.05)
        found.append(pending[0].done())
        store.set("waited", "")
    transport.wait_for_any(pending, 500.0)
    return [*found, pending[0].done()]


@pytest.mark.parametrize("backend", ["gloo", "steptime"])
def test_a_wait_ends_with_a_call_or_with_its_limit(backend: str, tmp_path: Path) -> None:
    start = time.perf_counter()
    assert on_ranks(2, awaited, tmp_path, backend=backend) == [[False, True], [True]]
    assert time.perf_counter() - start < 400  # the second wait did not last until its limit


def corrupted() -> int:
    from steptime.replay.torch_transport import TorchReplayTransport

    class Forgetful(TorchReplayTransport):
        """Receives nothing of a broadcast."""

        def collective(self, call: Any) -> Any:
            begin = super().collective(call)

            def other() -> Any:
                call.whole[0] += 1
                return begin()

            return other

        def blocking(self, call: Any) -> None:
            """Not so, whatever waits for it."""

    op = Collective(name="b", kind="broadcast", group=("data",), nbytes=400, root=1)
    ops = (op, Wait(name="there", after=(0,)))
    program = Program(name="b", axes={"data": 2}, lists=(ops,), class_of=np.zeros(2, np.int32))
    done = replay(
        program, Forgetful(), steps=1, warmup=0, compute=nothing, device=NOWHERE, verify=True
    )
    return done.wrong


def test_a_wrong_value_is_found(tmp_path: Path) -> None:
    assert on_ranks(2, corrupted, tmp_path) == [1, 1]


def by_polling() -> tuple[int, int]:
    """The transport of NCCL, whose calls tell by themselves whether they are done, on the CPU."""
    import torch

    from steptime.replay.nccl_transport import NcclReplayTransport

    class OnCpu(NcclReplayTransport):
        def __init__(self) -> None:
            super().__init__(torch.device("cpu"))

    program = everything(2, 2)
    # NCCL knows no tags: what a ring sends with the second one would meet the first.
    ops = tuple(op for op in program.lists[0] if getattr(op, "tag", 0) == 0)
    program = Program(
        name="one tag",
        axes=program.axes,
        lists=((*ops[:-2], Wait(name="all", after=tuple(range(1, len(ops) - 2)))),),
        class_of=program.class_of,
    )
    done = replay(program, OnCpu(), steps=2, warmup=1, compute=nothing, device=NOWHERE, verify=True)
    return done.checked, done.wrong


def test_the_transport_of_nccl_moves_the_right_values(tmp_path: Path) -> None:
    for checked, wrong in on_ranks(4, by_polling, tmp_path, backend="steptime"):
        assert checked > 0
        assert wrong == 0


def in_pieces() -> tuple[int, int]:
    from unittest.mock import patch

    from steptime.program import Recv, Send
    from steptime.replay import placement

    ops = (
        Send(name="s", axis="data", by=1, nbytes=4 * 1000, stream="out"),
        Recv(name="r", axis="data", by=1, nbytes=4 * 1000, stream="in"),
        Wait(name="there", after=(0, 1)),
    )
    program = Program(name="b", axes={"data": 2}, lists=(ops,), class_of=np.zeros(2, np.int32))
    with patch.object(placement, "MESSAGE_BYTES", 4 * 300):
        done = run(program)
        assert not run(program, verify=False).wrong
    return done.checked, done.wrong


@pytest.mark.parametrize("backend", ["gloo", "steptime"])
def test_a_message_in_pieces_arrives_whole(backend: str, tmp_path: Path) -> None:
    assert on_ranks(2, in_pieces, tmp_path, backend=backend) == [(2000, 0), (2000, 0)]
