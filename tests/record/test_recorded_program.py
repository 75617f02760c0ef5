"""Programs of recorded steps: from logs made by hand, and from scripts on real ranks."""

from dataclasses import replace
from pathlib import Path

import pytest
from log_made import Made, world

import recorded_scripts as scripts
import steptime as st
from forked import forked
from recorded import program_calls, record
from steptime.errors import UsageError
from steptime.program import MAIN, Collective, Compute, Op, Program, Recv, Send
from steptime.program.chakra import read_chakra
from steptime.program.stored import StoredProgram, write_programs
from steptime.record.events import Kind
from steptime.record.mesh import mesh_of
from steptime.record.program import recorded_program
from steptime.record.read import Group, ProcessLog, read_logs
from steptime.timeline import Phase


def _step(made: Made, begin: float) -> None:
    """A step of DDP from ``begin``: 30 µs of forward, 40 of backward, 20 of waiting, 10 of update.

    Its one bucket is issued in the middle of the backward.
    """
    made.call("allreduce_", 400, begin + 50, begin + 90)
    made.part(Kind.BACKWARD, begin + 30, begin + 90)
    made.part(Kind.OPTIMIZER, begin + 90, begin + 100)


def _ddp(ranks: int = 2, steps: int = 3) -> list[ProcessLog]:
    found = []
    for rank in range(ranks):
        made = Made(rank, ranks)
        made.part(Kind.OPTIMIZER, -10, 0)
        for step in range(steps):
            _step(made, 100 * step)
        found.append(made.log())
    return found


def test_a_step_of_ddp_waits_at_the_end_of_its_backward_for_its_bucket():
    step = recorded_program(_ddp(), "script")
    for ops in step.program.lists:
        forward, backward, bucket, rest = ops
        assert (forward.name, forward.seconds) == ("forward", pytest.approx(30e-6))
        assert (backward.name, backward.seconds) == ("backward", pytest.approx(20e-6))
        assert (bucket.kind, bucket.nbytes, bucket.after) == ("all_reduce", 400, (1,))
        # The reducer waits from when it has issued its last bucket until that is done.
        assert (rest.name, rest.phase, rest.after) == ("optimizer", Phase.UPDATE, (2,))
        assert rest.seconds == pytest.approx(10e-6)
    assert step.measured_s == pytest.approx(100e-6)
    assert (step.steps, step.alike) == (3, 3)


def test_the_step_is_of_median_length_among_those_that_call_the_same():
    logs = []
    for rank in range(2):
        made = Made(rank, 2)
        made.part(Kind.OPTIMIZER, -10, 0)
        for begin in (0, 100, 250):  # the third takes 150 µs
            _step(made, begin)
        made.blocking("allreduce_", 8, 360, 380)  # the fourth calls more, and takes 130
        _step(made, 380)
        logs.append(made.log())
    step = recorded_program(logs, "script")
    assert (step.number, step.alike, step.steps) == (1, 3, 4)
    assert "1 differ" in step.told


def test_blocking_calls_messages_and_handles_are_waited_for_where_the_script_waits():
    logs = []
    for rank in range(2):
        made = Made(rank, 2)
        made.part(Kind.DATA, 0, 100)
        first, second = ("send", "recv_") if rank == 0 else ("recv_", "send")
        made.call(first, 40, 100, 150, peer=1 - rank, wait_begin=100, wait_end=150)
        made.call("allreduce_", 80, 200, 290, wait_begin=280, wait_end=300)
        made.call(second, 48, 220, 260, peer=1 - rank, wait_begin=250, wait_end=260)
        made.part(Kind.DATA, 300, 400)
        logs.append(made.log())
    ops = recorded_program(logs, "script").program.lists[0]
    computed = [(op.seconds, op.after) for op in ops if isinstance(op, Compute)]
    assert [round(seconds * 1e6) for seconds, _ in computed] == [100, 50, 20, 30, 20, 100]
    places = {type(op): at for at, op in enumerate(ops) if not isinstance(op, Compute)}
    assert computed[1][1] == (places[Send],)
    assert computed[4][1] == (places[Recv],)
    assert computed[5][1] == (places[Collective],)
    assert len({op.stream for op in ops if op.stream != MAIN}) == 3


def test_nothing_waits_for_a_message_that_was_sent_before_its_receiver_came():
    logs = []
    for rank in range(2):
        made = Made(rank, 2)
        made.part(Kind.DATA, 0, 10)
        made.call("send", 40, 10, 20, peer=1 - rank, wait_begin=10, wait_end=20)
        made.call("recv_", 40, 30, 50, peer=1 - rank, wait_begin=30, wait_end=50)
        made.part(Kind.DATA, 50, 60)
        logs.append(made.log())
    program = recorded_program(logs, "script").program
    for ops in program.lists:
        send = next(at for at, op in enumerate(ops) if isinstance(op, Send))
        assert not any(send in op.after for op in ops)
    assert _simulated(program) < 1e-3  # that both send first is then no deadlock


def _simulated(program: Program) -> float:
    """The seconds of a simulated step."""
    from steptime.cluster import cluster_named
    from steptime.simulate.step import simulate

    return float(simulate(program, cluster_named("laptop")).step_s[-1])


def test_a_call_of_the_step_before_is_waited_for_in_this_one():
    logs = []
    for rank in range(2):
        made = Made(rank, 2)
        made.part(Kind.OPTIMIZER, -10, 0)
        for begin in (0, 100, 200):
            made.call(
                "allreduce_", 80, begin + 50, begin + 120, wait_begin=begin + 110,
                wait_end=begin + 120,
            )  # fmt: skip
            made.part(Kind.OPTIMIZER, begin + 90, begin + 100)
        logs.append(made.log())
    ops = recorded_program(logs, "script").program.lists[0]
    call = next(at for at, op in enumerate(ops) if isinstance(op, Collective))
    waiting = [op for op in ops if call - len(ops) in op.after]
    assert [type(op) for op in waiting] == [Compute]
    assert ops.index(waiting[0]) < call


def test_axes_are_named_and_ordered_as_a_device_mesh_has_them():
    groups = [Group("dp", "gloo", (at, at + 4), axis="dp") for at in range(4)]
    groups += [Group("tp", "gloo", tuple(range(4 * at, 4 * at + 4)), axis="tp") for at in (0, 1)]
    mesh = mesh_of(_ddp(8, 1), [*groups, world(8)], [(0, 4)])
    assert list(mesh.axes.items()) == [("tp", 4), ("dp", 2)]
    assert (mesh.group(groups[0]), mesh.group(world(8))) == (("dp",), ("tp", "dp"))
    assert mesh.shift(5, 1) == ("dp", 1)


def test_two_groups_of_the_same_ranks_are_two():
    other = Group("3", "gloo", (0, 1))
    mesh = mesh_of(_ddp(2, 1), [world(2), other], [])
    assert mesh.group(world(2)) != mesh.group(other)


def test_a_group_that_is_no_row_of_a_mesh_is_refused_by_name():
    odd = Group("odd", "gloo", (0, 1, 3))
    with pytest.raises(UsageError, match=r"the group odd of the ranks 0, 1, 3"):
        mesh_of(_ddp(4, 1), [odd], [])


def test_what_a_peer_did_not_record_is_refused_by_name():
    with pytest.raises(UsageError, match="rank 1 of 2 wrote nothing down"):
        recorded_program(_ddp()[:1], "script")
    one, other = _ddp()
    cut = replace(other, events=other.events[other.events["kind"] != Kind.CALL])
    with pytest.raises(UsageError, match=r"rank 0 .* calls all_reduce of 400 bytes .*nothing"):
        recorded_program([one, cut], "script")
    alone = Made(0, 2)
    alone.call("send", 40, 0, 10, peer=1)
    silent = Made(1, 2)
    silent.part(Kind.DATA, 0, 10)
    with pytest.raises(UsageError, match=r"sends 1 messages to rank 1.*script\.py:7"):
        recorded_program([alone.log(), silent.log()], "script")


def test_an_all_to_all_of_uneven_shares_counts_as_their_mean():
    logs = []
    for rank in range(2):
        made = Made(rank, 2)
        made.blocking("alltoall_base_", 80 + 80 * rank, 0, 10)
        logs.append(made.log())
    assert [program_calls(ops) for ops in recorded_program(logs, "x").program.lists] == [
        [("all_to_all", 120)]
    ] * 2


def _record(folder: Path, script: str, *arguments: str) -> Path:
    done = record(folder, script, *arguments)
    assert done.code == 0, done.err
    return folder / "run"


@pytest.mark.slow
def test_a_recorded_step_is_simulated_replayed_rescaled_and_exported(tmp_path: Path) -> None:
    run = _record(tmp_path, scripts.DDP, "0")
    there = st.simulate(run, "laptop", what_if="backward=2x")
    (program,) = (one.program for one in there.programs)
    assert program_calls(program.lists[0]) == [("all_reduce", 40_000)]
    computed = [sum(getattr(op, "seconds", 0.0) for op in ops) for ops in program.lists]
    assert max(computed) * (1 - 1e-9) <= there.step_s <= sum(computed) + 1e-3
    assert there.record.what_if.strategies["script"].step_time_s.median < there.step_s
    assert len(st.simulate(run, "dgx-h100", ranks=8).figures.ranks) == 8
    done = forked("replay", "run", "--json", "--steps", "2", "--out", "again", folder=tmp_path)
    assert done.code == 0, done.err
    told = done.json
    assert (told["verb"], told["ranks"], told["backend"]) == ("replay", 2, "gloo")
    assert told["strategies"]["script"]["bytes_sent_per_rank"] == [40_000, 40_000]
    assert forked("export", "run", "--to", "chakra", folder=tmp_path).code == 0
    chakra = read_chakra(next(path.parent for path in (run / "export").rglob("*.et")))
    assert program_calls(chakra.lists[0]) == [("all_reduce", 40_000)]


_REPLAYING = (
    scripts.START
    + """
from pathlib import Path
from steptime.program.stored import read_programs
from steptime.record.start import end_step
from steptime.replay.device import Device
from steptime.replay.replay import replay
from steptime.replay.torch_transport import TorchReplayTransport
(stored,) = read_programs(Path(sys.argv[1]))
def compute(seconds, poll, rest):
    if seconds == 1e-3:  # the last op of a step
        end_step()
replay(stored.program, TorchReplayTransport(), steps=4, warmup=0, compute=compute, device=Device())
dist.destroy_process_group()
"""
)


def test_the_recording_of_a_replayed_program_is_that_program_again(tmp_path: Path) -> None:
    program = _made_program()
    (tmp_path / "made").mkdir()
    seconds = tuple(tuple(getattr(op, "seconds", 0.0) for op in ops) for ops in program.lists)
    write_programs(tmp_path / "made", [StoredProgram(program=program, seconds=seconds)])
    run = _record(tmp_path, _REPLAYING, str(tmp_path / "made"))
    again = recorded_program(read_logs(run), "again").program
    for ops, others in zip(program.lists, again.lists, strict=True):
        assert program_calls(others) == program_calls(ops)
        dtypes = [[op.dtype for op in of if isinstance(op, Collective)] for of in (ops, others)]
        assert dtypes[0] == dtypes[1]


def _made_program() -> Program:
    """Two ranks that compute, reduce, gather in bf16 and exchange messages, one after another."""
    lists = []
    for _ in range(2):
        ops: list[Op] = [Compute(name="forward", seconds=1e-4)]
        calls: list[Op] = [
            Collective(name="sum", kind="all_reduce", group=("data",), nbytes=400),
            Collective(name="gather", kind="all_gather", group=("data",), nbytes=80, dtype="bf16"),
            Collective(name="ids", kind="broadcast", group=("data",), nbytes=16, dtype="int64"),
            Send(name="send", axis="data", by=1, nbytes=4000, stream="send"),
            Recv(name="recv", axis="data", by=1, nbytes=4000, stream="recv"),
        ]
        for call in calls:
            ops.append(replace(call, after=(min(len(ops) - 1, 3),)))  # both messages at once
        ops.append(Compute(name="end", seconds=1e-3, after=tuple(range(1, len(ops)))))
        lists.append(tuple(ops))
    from numpy import arange, int32

    return Program(
        name="made", axes={"data": 2}, lists=tuple(lists), class_of=arange(2, dtype=int32)
    )
