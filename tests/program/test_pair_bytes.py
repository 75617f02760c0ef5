"""Who sends how much to whom: of one collective, and of a whole program."""

import numpy as np

from steptime.program import Collective, Compute, Program, Recv, Send, match_calls
from steptime.program.message_ends import message_ends, messages_of_step
from steptime.program.pair_bytes import (
    call_name,
    calls_record,
    pairs_record,
    program_bytes,
)


def pipeline() -> Program:
    """Two replicas of two stages: a message forward, then a sum along the data axis."""
    total = Collective(name="all_reduce 0", kind="all_reduce", group=("data",), nbytes=80)
    return Program(
        name="p",
        axes={"data": 2, "pipeline": 2},
        lists=(
            (
                Compute(name="forward", seconds=1.0),
                Send(name="send 0", axis="pipeline", by=1, nbytes=8),
                total,
            ),
            (Recv(name="receive 0", axis="pipeline", by=-1, nbytes=8), total),
        ),
        class_of=np.array([0, 0, 1, 1], np.int32),
    )


def test_the_bytes_of_a_program_are_those_of_its_messages_and_collectives() -> None:
    program = pipeline()
    sent = program_bytes(program, match_calls(program))
    assert sent.tolist() == [[0, 80, 8, 0], [80, 0, 0, 8], [0, 0, 0, 80], [0, 0, 80, 0]]
    record = pairs_record(sent)
    assert record["src"] == [0, 0, 1, 1, 2, 3]
    assert sum(record["bytes"]) == 4 * 80 + 2 * 8


def test_calls_are_told_by_name_and_stream() -> None:
    calls = {call["name"]: call for call in calls_record(pipeline())}
    assert calls["all_reduce"] | {"stream": ""} == {
        "name": "all_reduce",
        "stream": "",
        "bytes": 80,
        "kind": "all_reduce",
        "group": "data",
        "members": 2,
    }
    assert calls["send"]["kind"] == "send"
    assert call_name("forward 12 attention") == "forward attention"


def test_each_send_knows_its_receive() -> None:
    program = pipeline()
    ends = message_ends(program, match_calls(program))
    assert ends.tolist() == [(0, 2, 1, 0, 8), (1, 3, 1, 0, 8)]
    times = {
        0: np.array([[0, 1], [1, 3], [3, 4]], float),
        1: np.array([[0, 1], [1, 3], [3, 4]], float),
        2: np.array([[2, 3], [3, 4]], float),
    }
    (message,) = messages_of_step(ends, times).tolist()
    assert message == (0, 2, 2.0, 3.0, 8), "it goes when both are there; rank 3 is not known"
