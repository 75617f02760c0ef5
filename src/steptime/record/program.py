"""From what the ranks of a job wrote down to a Program: one step of it, as it was called."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from steptime.dtypes import DTYPES, item_bytes
from steptime.errors import UsageError
from steptime.program import Collective, Program, Recv, Send, check, match_calls
from steptime.record.mesh import Mesh, mesh_of
from steptime.record.read import Group, ProcessLog
from steptime.record.script import CallOp, ops_of
from steptime.record.steps import CallKey, ChosenStep, RankStep, chosen_step

MESSAGES = ("send", "recv")

_OF_SIZE = {1: "uint8", 2: "fp16", 4: "int32", 8: "int64"}
_SHORT = {dtype.name: dtype.short for dtype in DTYPES.values()}
_BYTES = {"bool": 1, "int16": 2, "uint16": 2, "complex64": 8}


@dataclass(frozen=True, eq=False)
class RecordedProgram:
    """A step of a recorded job as a Program.

    It is step ``number`` of ``steps``, of which ``alike`` call the same. ``measured_s``: how long
    it took on its slowest rank. ``backend``: what communicated.
    """

    program: Program
    number: int
    alike: int
    steps: int
    measured_s: float
    backend: str

    @property
    def told(self) -> str:
        """Which step it is, in a sentence."""
        which = f"step {self.number + 1} of {self.steps}, the one of median length"
        if self.alike == self.steps:
            return which if self.steps > 1 else "the whole run, which has no steps"
        return f"{which} of the {self.alike} that call the same; {self.steps - self.alike} differ"


def recorded_program(logs: Sequence[ProcessLog], name: str) -> RecordedProgram:
    """The Program of one step of a job: computing as long as it took, calls as they were made.

    Of ranks laid out along axes, in their order; each has its own list. A collective begins when
    the script has come to it and its group has done the one before, a message likewise; the script
    goes on when what it waited for has ended. A send that ended before its receiver came was
    buffered: nothing waits for it.

    Raises UsageError where a rank or the peer of a call wrote nothing down, or the groups are not
    those of a mesh.
    """
    _check_all_ranks(logs)
    step = chosen_step(logs)
    groups = [key[1] for rank in step.ranks for key in rank.keys]
    messages = _messages(step)
    mesh = mesh_of(logs, groups, sorted({(one.src, one.dst) for one in messages}))
    several = len({mesh.group(group) for group in groups}) > 1
    nbytes = _even_bytes(step)
    buffered = _buffered_bytes(step, messages)
    lists = []
    for rank in step.ranks:
        at = rank.log.rank
        calls = [
            _op(rank, mesh, key, nbytes[at, number], number, several)
            for number, key in enumerate(rank.keys)
        ]
        unawaited = [isinstance(op, Send) and op.nbytes <= buffered for op in calls]
        lists.append(ops_of(rank, calls, unawaited))
    program = Program(
        name=name,
        axes=mesh.axes,
        lists=tuple(lists),
        class_of=np.arange(len(lists), dtype=np.int32),
    )
    check(program)
    match_calls(program)
    return RecordedProgram(
        program,
        step.number,
        step.alike,
        step.steps,
        max(rank.end - rank.begin for rank in step.ranks) / 1e9,
        next((group.backend for log in logs for group in log.groups.values()), ""),
    )


def _check_all_ranks(logs: Sequence[ProcessLog]) -> None:
    ranks = max(log.world_size for log in logs)
    missing = sorted(set(range(ranks)) - {log.rank for log in logs})
    if missing:
        raise UsageError(
            f"rank {missing[0]} of {ranks} wrote nothing down, so what it computes and calls is "
            "not known: record every rank"
        )


def _op(
    rank: RankStep, mesh: Mesh, key: CallKey, nbytes: int, number: int, several: bool
) -> CallOp:
    """The n-th call of a rank, without what it comes after."""
    kind, group, _, dtype, peer = key
    name = f"{kind} {_place(rank, number)}"
    if kind in MESSAGES:
        axis, by = mesh.shift(rank.log.rank, group.ranks[peer])
        tag = int(mesh.again.get(group, "group 0").split()[-1])
        stream = f"{kind} {axis} {by:+d}"
        end = Send if kind == "send" else Recv
        return end(name=name, axis=axis, by=by, nbytes=nbytes, tag=tag, stream=stream)
    axes = mesh.group(group)
    root = sorted(group.ranks).index(group.ranks[max(0, peer)])
    return Collective(
        name=name,
        kind=kind,
        group=axes,
        nbytes=nbytes,
        dtype=short_dtype(dtype),
        root=root,
        stream=f"comm {'+'.join(axes)}" if several else "comm",
    )


def short_dtype(name: str) -> str:
    """A dtype of torch by its name in programs; where it has none, one as long."""
    return _SHORT.get(name or "float32") or _OF_SIZE[_BYTES.get(name, 1)]


@dataclass(frozen=True)
class _Message:
    """Both ends of a message: numbers of the calls of its sender and its receiver."""

    src: int
    dst: int
    send: int
    recv: int


def _messages(step: ChosenStep) -> list[_Message]:
    """The n-th message that a rank sends to another in a group is the n-th received of it there.

    Raises UsageError where a rank receives from any other, which leaves open from which.
    """
    ends: dict[tuple[Group, int, int], tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for rank in step.ranks:
        here = rank.log.rank
        for number, (kind, group, _, _, peer) in enumerate(rank.keys):
            if kind not in MESSAGES:
                continue
            if not 0 <= peer < len(group.ranks):
                raise UsageError(
                    f"rank {here} receives from any rank at {_place(rank, number)}, so from which "
                    "one is not known: let the script name the source"
                )
            there = group.ranks[peer]
            both = (here, there) if kind == "send" else (there, here)
            ends[group, *both][kind == "recv"].append(number)
    for (_, src, dst), (sends, recvs) in ends.items():
        if len(sends) != len(recvs):
            rank = step.ranks[src if sends else dst]
            number = (sends or recvs)[-1]
            raise UsageError(
                f"in step {step.number + 1} rank {src} sends {len(sends)} messages to rank {dst}, "
                f"which receives {len(recvs)}, the last at {_place(rank, number)}: no Program can "
                "be made of a message without its other end"
            )
    return [
        _Message(src, dst, send, recv)
        for (_, src, dst), both in ends.items()
        for send, recv in zip(*both, strict=True)
    ]


def _place(rank: RankStep, number: int) -> str:
    """Where in the script the n-th call of a rank stands."""
    site = rank.log.sites.get(int(rank.log.calls["site"][rank.rows[number]]))
    return str(site) if site else "a place that is not known"


def _buffered_bytes(step: ChosenStep, messages: Sequence[_Message]) -> int:
    """The size of the largest message that was sent before its receiver came for it; -1: none."""
    most = -1
    for one in messages:
        sender, receiver = step.ranks[one.src], step.ranks[one.dst]
        send = sender.log.calls[sender.rows[one.send]]
        recv = receiver.log.calls[receiver.rows[one.recv]]
        sent = sender.log.by_wall(send["wait_end"])
        came = receiver.log.by_wall(recv["issued"])
        if send["wait_end"] and sent < came:
            most = max(most, int(send["bytes"]))
    return most


def _even_bytes(step: ChosenStep) -> dict[tuple[int, int], int]:
    """The bytes of each call, by rank and number; of an all_to_all the mean over its ranks.

    It alone may have other bytes on each rank, and an op of a Program has but one size.
    """
    found: dict[tuple[int, int], int] = {}
    uneven: dict[tuple[Group, int], list[tuple[int, int]]] = defaultdict(list)
    for rank in step.ranks:
        counts: Counter[Group] = Counter()
        for number, (kind, group, nbytes, *_) in enumerate(rank.keys):
            found[rank.log.rank, number] = nbytes
            counts[group] += kind not in MESSAGES
            if kind == "all_to_all":
                uneven[group, counts[group]].append((rank.log.rank, number))
    for (group, _), calls in uneven.items():
        first, number = calls[0]
        share = item_bytes(short_dtype(step.ranks[first].keys[number][3])) * len(group.ranks)
        sizes = [found[call] for call in calls]
        if len(set(sizes)) > 1:
            found |= dict.fromkeys(calls, round(sum(sizes) / len(sizes) / share) * share)
    return found
