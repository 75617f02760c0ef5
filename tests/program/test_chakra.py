"""Chakra traces: byte for byte as the schema says, there and back, and those of others."""

import json
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steptime.cluster.files import cluster_named
from steptime.cluster.what_if import ideal
from steptime.collectives.collective import COLLECTIVES
from steptime.errors import UsageError
from steptime.program import Collective, Compute, Op, Program, Recv, Send, Wait
from steptime.program.chakra import read_chakra, write_chakra
from steptime.program.chakra.node import (
    Node,
    NodeType,
    metadata_record,
    node_record,
    read_metadata,
    read_node,
)
from steptime.program.chakra.protobuf import (
    Wire,
    read_packed,
    read_sized,
    read_varint,
    varint,
)
from steptime.simulate.step import simulate
from steptime.timeline import Phase

METADATA = bytes.fromhex("07 0a 05 30 2e 30 2e 34")


def same(a: Program, b: Program) -> bool:
    return (a.name, dict(a.axes), list(a.axes), a.lists, a.class_of.tolist()) == (
        b.name,
        dict(b.axes),
        list(b.axes),
        b.lists,
        b.class_of.tolist(),
    )


def attribute(name: str, value: bytes) -> bytes:
    content = b"\x0a" + bytes([len(name)]) + name.encode() + value
    return b"\x52" + bytes([len(content)]) + content


def record(*parts: bytes) -> bytes:
    content = b"".join(parts)
    assert len(content) < 0x80
    return bytes([len(content)]) + content


def trace(folder: Path, *traces: bytes, groups: object = None) -> Path:
    for rank, content in enumerate(traces):
        (folder / f"other.{rank}.et").write_bytes(METADATA + content)
    if groups is not None:
        (folder / "groups.json").write_text(json.dumps(groups))
    return folder


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (0, "00"),
        (127, "7f"),
        (128, "8001"),
        (300, "ac02"),
        ((1 << 64) - 1, "ffffffffffffffffff01"),
        (-1, "ffffffffffffffffff01"),
    ],
)
def test_varints(value: int, written: str) -> None:
    assert varint(value) == bytes.fromhex(written)
    assert read_varint(bytes.fromhex(written), 0) == (value % (1 << 64), len(written) // 2)


def test_packed_numbers_of_fixed_size_are_cut_where_they_end() -> None:
    numbers = struct.pack("<2d", 0.5, -2.0)
    assert list(read_packed(Wire.BYTES, Wire.FIXED64, numbers)) == [numbers[:8], numbers[8:]]


def test_the_metadata_record_is_eight_bytes() -> None:
    assert metadata_record({}) == METADATA
    assert read_metadata(METADATA[1:]) == {}


def test_a_minimal_collective_byte_by_byte() -> None:
    """Of a node with id 0 the id is left out; values are written though they are zero."""
    node = Node(
        0,
        "all_reduce",
        NodeType.COMM_COLL,
        attributes={"is_cpu_op": False, "comm_type": 0, "comm_size": 1 << 40},
    )
    expected = (
        b"\x12\x0aall_reduce"
        + b"\x18\x07"
        + attribute("is_cpu_op", bytes.fromhex("d80100"))
        + attribute("comm_type", bytes.fromhex("4800"))
        + attribute("comm_size", bytes.fromhex("48808080808020"))
    )
    assert node_record(node) == bytes([len(expected)]) + expected
    assert read_node(expected) == node
    small = Node(0, "a", NodeType.COMM_COLL, attributes=dict.fromkeys(node.attributes, 0))
    assert 50 <= len(node_record(small)) <= 75


def test_what_other_writers_may_choose() -> None:
    """Unpacked numbers, fields out of order, members and fields of other types than ours."""
    content = (
        attribute("share", b"\x19" + struct.pack("<d", 0.5))
        + attribute("half", b"\x2d" + struct.pack("<f", 1.5))
        + attribute("back", b"\x78\x03")  # sint32 -2
        + attribute("dims", bytes.fromhex("e2010408000801"))  # a list of bool, unpacked
        + attribute("raw", bytes.fromhex("fa010100"))
        + bytes.fromhex("280528073a020102")  # data_deps 5, 7 apart; duration wrongly typed below
    )
    with pytest.raises(UsageError, match="a number is expected"):
        read_node(content)
    node = read_node(content[:-4] + bytes.fromhex("2001 38ac02 0809 1804 9a060100"))
    assert (node.id, node.type, node.micros, node.after) == (9, NodeType.COMP, 300, (5, 7))
    assert node.controls == (1,)
    assert node.attributes == {
        "share": 0.5,
        "half": 1.5,
        "back": -2,
        "dims": (False, True),
        "raw": b"\0",
    }


NAMES = st.text(st.characters(codec="utf-8"), max_size=8)
COUNTS = st.integers(0, (1 << 63) - 1)
POSITIVE = st.floats(0, 1e30, allow_subnormal=True)
STREAMS = st.sampled_from(["compute", "comm", "h2d"])
COMMON = {"name": NAMES, "stream": STREAMS}
OPS = st.one_of(
    st.builds(
        Compute,
        **COMMON,
        seconds=st.none() | POSITIVE,
        flops=POSITIVE,
        nbytes=POSITIVE,
        dtype=NAMES,
        phase=st.sampled_from(Phase),
    ),
    st.builds(
        Collective,
        **COMMON,
        kind=st.sampled_from(sorted(COLLECTIVES)),
        group=st.sampled_from([("dp",), ("tp",), ("pp", "dp"), ("tp", "pp", "dp")]),
        nbytes=COUNTS,
        algorithm=NAMES,
    ),
    *(
        st.builds(
            kind,
            **COMMON,
            axis=st.sampled_from(["tp", "pp", "dp"]),
            by=st.integers(-3, 3),
            nbytes=COUNTS,
            tag=st.integers(0, (1 << 31) - 1),
        )
        for kind in (Send, Recv)
    ),
    st.builds(Wait, **COMMON),
)


@st.composite
def programs(draw: st.DrawFn) -> Program:
    axes = {axis: draw(st.integers(1, 2)) for axis in ("tp", "pp", "dp")}
    ranks = int(np.prod(list(axes.values())))
    lists = draw(st.lists(st.lists(OPS, max_size=5), min_size=1, max_size=min(3, ranks)))
    made = [
        tuple(
            replace(op, after=tuple(draw(st.sets(st.integers(-len(ops), place - 1), max_size=3))))
            for place, op in enumerate(ops)
        )
        for ops in lists
    ]
    class_of = np.arange(ranks, dtype=np.int32) % len(made)
    return Program(name=draw(NAMES), axes=axes, lists=tuple(made), class_of=class_of)


@given(program=programs())
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_there_and_back(program: Program, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("traces")
    write_chakra(program, folder)
    assert same(read_chakra(folder), program)


def pipeline() -> Program:
    """Two stages of two ranks each: work, its gradients, and what goes to the next stage."""
    first: tuple[Op, ...] = (
        Compute(name="forward", seconds=1.25e-3, flops=4e9, nbytes=1e6),
        Send(name="on", axis="pp", by=1, nbytes=1 << 33, tag=3, after=(0,)),
        Collective(name="sum", kind="reduce", group=("dp",), nbytes=4096, root=1, after=(-1,)),
        Collective(name="all", kind="all_gather", group=("dp", "pp"), nbytes=4096),
    )
    second = (
        Wait(name="rest"),
        Recv(name="in", axis="pp", by=-1, nbytes=1 << 33, tag=3, stream="p2p"),
        *first[2:],
    )
    return Program(
        name="two stages",
        axes={"dp": 2, "pp": 2},
        lists=(first, second),
        class_of=np.array([0, 0, 1, 1], np.int32),
    )


def test_what_others_read_of_ours(tmp_path: Path) -> None:
    write_chakra(pipeline(), tmp_path)
    assert json.loads((tmp_path / "comm_groups.json").read_text()) == {
        "1": [0, 1],
        "2": [2, 3],
        "3": [0, 1, 2, 3],
    }
    content = (tmp_path / "step.2.et").read_bytes()
    nodes, at = [], 0
    while at < len(content):
        one, at = read_sized(content, at)
        nodes.append(one)
    rest, received, reduced, gathered = map(read_node, nodes[1:])
    assert (rest.type, received.type) == (NodeType.METADATA, NodeType.COMM_RECV)
    assert received.attributes | {"comm_src": 0, "comm_dst": 2, "comm_tag": 3} == (
        received.attributes
    )
    assert received.attributes["comm_size"] == 1 << 33
    assert (reduced.attributes["comm_type"], reduced.attributes["pg_name"]) == (1, "2")
    assert gathered.after == (2,)  # the same stream; no Chakra trace knows the step before
    assert (gathered.attributes["comm_type"], gathered.attributes["comm_size"]) == (2, 1024)
    assert gathered.attributes["pg_name"] == "3"  # groups along other axes have other numbers
    assert [one.micros for one in (rest, received, reduced, gathered)] == [0] * 4
    assert rest.attributes["is_cpu_op"] is True
    assert received.attributes["is_cpu_op"] is False
    assert b"\x38" + varint(1250) in (tmp_path / "step.0.et").read_bytes()  # duration_micros


def test_a_collective_of_one_rank_is_nothing_that_others_carry_out(tmp_path: Path) -> None:
    op = Collective(name="r", kind="all_reduce", group=("t",), nbytes=8)
    axes = {"t": 1, "d": 2}
    program = Program(name="p", axes=axes, lists=((op,),), class_of=np.array([0, 0], np.int32))
    write_chakra(program, tmp_path)
    content = (tmp_path / "step.1.et").read_bytes()
    node = read_node(read_sized(content, read_sized(content, 0)[1])[0])
    assert (node.type, node.attributes["is_cpu_op"]) == (NodeType.METADATA, True)
    assert same(read_chakra(tmp_path), program)


def test_computing_takes_the_seconds_of_the_run(tmp_path: Path) -> None:
    program = Program(
        name="p",
        axes={"d": 1},
        lists=((Compute(name="work", flops=5e9, nbytes=3.0),),),
        class_of=np.array([0], np.int32),
    )
    write_chakra(program, tmp_path, seconds=((2e-3,),))
    content = (tmp_path / "step.0.et").read_bytes()
    node = read_node(read_sized(content, read_sized(content, 0)[1])[0])
    assert (node.micros, node.attributes["num_ops"]) == (2000, 5_000_000_000)
    assert b"tensor_size\x68\x03" in content  # uint64_val, the only one that feeder v1 reads
    assert read_chakra(tmp_path).lists == program.lists
    write_chakra(program, tmp_path)
    content = (tmp_path / "step.0.et").read_bytes()
    untold = read_node(read_sized(content, read_sized(content, 0)[1])[0])
    assert untold.micros == 0, "how long its FLOP take is the reader's to say"


def test_an_op_of_ours_that_nobody_knows_is_refused_and_not_left_out(tmp_path: Path) -> None:
    write_chakra(pipeline(), tmp_path)
    for path in tmp_path.glob("*.et"):
        path.write_bytes(path.read_bytes().replace(b"Recv", b"Rexv"))
    with pytest.raises(UsageError, match=r"\.et: the node '.*' is no op of this version"):
        read_chakra(tmp_path)


def test_an_op_of_ours_with_a_field_of_another_type_is_refused(tmp_path: Path) -> None:
    whose = {"program": "p", "axes": ("d",), "sizes": (1,), "class": 0}
    metadata = metadata_record({f"steptime.{name}": value for name, value in whose.items()})
    for stream, fits in (("comm", True), (7, False)):
        own = {"steptime.op": "Wait", "steptime.stream": stream}
        node = Node(0, "w", NodeType.METADATA, attributes=own)
        (tmp_path / "x.0.et").write_bytes(metadata + node_record(node))
        if fits:
            assert read_chakra(tmp_path).lists == ((Wait(name="w", stream="comm"),),)
            continue
        with pytest.raises(UsageError, match="the node 'w' is no op of this version"):
            read_chakra(tmp_path)


def test_a_folder_within_a_folder_that_is_not_there_is_made(tmp_path: Path) -> None:
    write_chakra(pipeline(), tmp_path / "runs" / "chakra")
    assert same(read_chakra(tmp_path / "runs" / "chakra"), pipeline())


@pytest.mark.parametrize("by", [1, -1, 2])
def test_a_message_of_others_goes_as_far_as_their_ranks_are_apart(by: int, tmp_path: Path) -> None:
    program = Program(
        name="ring",
        axes={"axis0": 4},
        lists=(
            (
                Send(name="out", axis="axis0", by=by, nbytes=8, stream="out"),
                Recv(name="in", axis="axis0", by=-by, nbytes=8, stream="in"),
            ),
        ),
        class_of=np.zeros(4, np.int32),
    )
    write_chakra(program, tmp_path)
    for path in tmp_path.glob("*.et"):  # what is ours is named so that nobody knows it
        path.write_bytes(path.read_bytes().replace(b"steptime.", b"somebody."))
    (ops,) = read_chakra(tmp_path).lists
    assert [op.by % 4 for op in ops if isinstance(op, Send)] == [by % 4]
    assert [op.by % 4 for op in ops if isinstance(op, Recv)] == [-by % 4]


def test_a_trace_of_others_by_its_bytes(tmp_path: Path) -> None:
    """Compute, then a gather among all; the other rank adds a message back and forth."""
    work = record(b"\x08\x01\x12\x04work\x18\x04\x38\xfa\x01")  # 250 microseconds
    gather = record(
        b"\x08\x02\x12\x03all\x18\x07\x2a\x01\x01",
        attribute("comm_type", b"\x48\x02"),
        attribute("comm_size", b"\x48\x40"),
    )
    send = record(
        b"\x08\x03\x18\x05\x22\x01\x01",
        attribute("comm_dst", b"\x38\x01"),
        attribute("comm_size", b"\x48\x08"),
    )
    receive = record(
        b"\x08\x04\x18\x06",
        attribute("comm_src", b"\x38\x00"),
        attribute("comm_size", b"\x48\x08"),
    )
    program = read_chakra(trace(tmp_path, gather + work + send, work + gather + receive))
    assert program.axes == {"axis0": 2}
    worked = Compute(name="work", seconds=250e-6)
    gathered = Collective(name="all", kind="all_gather", group=("axis0",), nbytes=128, after=(0,))
    assert [program.lists[c] for c in program.class_of] == [
        (
            worked,
            gathered,
            Send(name="node 3", axis="axis0", by=1, nbytes=8, stream="send", after=(0,)),
            Wait(name="end", after=(1, 2)),
        ),
        (
            worked,
            gathered,
            Recv(name="node 4", axis="axis0", by=1, nbytes=8, stream="recv axis0 +1"),
            Wait(name="end", after=(1, 2)),
        ),
    ]


def test_a_trace_of_version_0_0_4_tells_it_as_an_attribute(tmp_path: Path) -> None:
    schema = b"\x0a\x06schema\xea\x01\x121.0.2-chakra.0.0.4"
    metadata = record(b"\x12" + bytes([len(schema)]) + schema)
    (tmp_path / "x.0.et").write_bytes(metadata + record(b"\x08\x01\x18\x04\x38\x07"))
    assert read_chakra(tmp_path).lists == ((Compute(name="node 1", seconds=7e-6),),)


def test_a_call_of_pytorch_controls_what_its_own_data_waits_for(tmp_path: Path) -> None:
    """Node 1 needs the data of 2, which 1 and a node outside of the trace control."""
    call = record(b"\x08\x01\x18\x07\x38\x05\x2a\x01\x02", attribute("is_cpu_op", b"\xd8\x01\x01"))
    kernel = record(b"\x08\x02\x18\x04\x38\x07\x22\x02\x01\x09")
    assert read_chakra(trace(tmp_path, call + kernel)).lists == (
        (
            Compute(name="node 2", seconds=7e-6),
            Compute(name="node 1", seconds=5e-6, stream="cpu", after=(0,)),
            Wait(name="end", after=(1,)),
        ),
    )


def test_sends_of_others_do_not_wait_for_the_receive_that_follows_one(tmp_path: Path) -> None:
    """A ring: each rank sends, then receives, then computes, as ASTRA-sim's custom collective."""
    traces = [
        record(
            b"\x08\x01\x18\x05",
            attribute("comm_dst", b"\x38" + bytes([(rank + 1) % 3])),
            attribute("comm_size", b"\x48\x08"),
        )
        + record(
            b"\x08\x02\x18\x06\x2a\x01\x01",
            attribute("comm_src", b"\x38" + bytes([(rank - 1) % 3])),
            attribute("comm_size", b"\x48\x08"),
        )
        + record(b"\x08\x03\x18\x04\x38\x07\x2a\x01\x02")
        for rank in range(3)
    ]
    program = read_chakra(trace(tmp_path, *traces))
    assert [op.after for op in program.lists[0]] == [(), (), (0, 1)]
    cluster = ideal(cluster_named("dgx-h100"))
    assert simulate(program, cluster, steps=1).step_s == pytest.approx([7e-6])


def test_groups_of_others_become_axes(tmp_path: Path) -> None:
    """Of 16 ranks: tensor groups of neighbours, data groups across, and both together."""

    def reduce(identity: int, group: str) -> bytes:
        return record(
            bytes([8, identity]),
            b"\x12\x01r\x18\x07",
            attribute("pg_name", b"\xea\x01" + bytes([len(group)]) + group.encode()),
        )

    groups = {str(i): [2 * i, 2 * i + 1] for i in range(8)}
    groups |= {str(10 + i): [i, i + 4, i + 8, i + 12] for i in range(4)}
    traces = [reduce(1, str(rank // 2)) + reduce(2, str(10 + rank % 4)) for rank in range(16)]
    program = read_chakra(trace(tmp_path, *traces, groups=groups))
    assert program.axes == {"axis0": 2, "axis1": 2, "axis2": 4}
    assert [op.group for op in program.lists[0][:2]] == [("axis0",), ("axis2",)]
    assert program.lists == program.lists[:1]
    across = record(b"\x18\x05", attribute("comm_dst", b"\x38\x03"))  # from rank 0 to rank 3
    with pytest.raises(UsageError, match="from rank 0 to rank 3 lies along none of the axes"):
        read_chakra(trace(tmp_path, traces[0] + across, *traces[1:], groups=groups))
    for wrong, sentence in (
        ([0, 4, 8, 9], "ranks 0, 4, 8, 9 lies along no axes: its ranks are not evenly apart"),
        ([0, 3, 6, 9], "divide 16 ranks at 1, 2, 3, 4, 12, 16, which do not divide each other"),
        ([1, 2], "ranks 1, 2 lies along no axes that it shares"),
        ([0, 4, 8, 16], "the group 10 has ranks that are not there, or"),
        ([-1, 4, 8, 12], "the group 10 has ranks that are not there, or"),
        ([0, 4, 4, 8], "the group 10 has ranks that are not there, or"),
    ):
        (tmp_path / "groups.json").write_text(json.dumps(groups | {"10": wrong}))
        with pytest.raises(UsageError, match=sentence):
            read_chakra(tmp_path)


WORK = record(b"\x08\x01\x12\x04work\x18\x04")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (WORK[:-1], r"other\.0\.et is damaged in record 1, at byte 8: 10 bytes are announced"),
        (b"\xff" * 12, "at byte 8: a number has more than 64 bits"),
        (record(b"\x0f\x01"), "no field has the key 15"),
        (record(b"\x18\x63"), "of no known type: 99"),
        (record(b"\x12\x02\xff\xfe"), "not in UTF-8"),
        (WORK + WORK, "the same number"),
        (record(b"\x08\x01\x18\x04\x2a\x01\x01"), "waits, by way of others, for itself"),
        (record(b"\x08\x01\x12\x01a\x18\x04\x2a\x01\x09"), "'a' waits for a node 9"),
        (record(b"\x18\x05", attribute("comm_dst", b"\x38\x07")), "rank 7, which is not there"),
        (record(b"\x18\x05", attribute("comm_dst", b"\xea\x01\x01x")), "is 'x', which is no count"),
        (record(b"\x18\x07", attribute("comm_type", b"\x48\x20")), "no known type: 32"),
        (record(b"\x18\x07", attribute("pg_name", b"\xea\x01\x015")), "among the group 5"),
        (record(b"\x18\x07", attribute("involved_dim", bytes.fromhex("e2010208 00"))), "involved"),
    ],
)
def test_what_is_damaged_is_told_in_a_sentence(
    content: bytes, sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=sentence):
        read_chakra(trace(tmp_path, content))


def test_files_that_are_missing_or_do_not_belong_together(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no Chakra traces"):
        read_chakra(tmp_path)
    write_chakra(pipeline(), tmp_path)
    (tmp_path / "step.1.et").rename(tmp_path / "aside")
    with pytest.raises(UsageError, match="lacks the trace of rank 1 of 4"):
        read_chakra(tmp_path)
    (tmp_path / "aside").rename(tmp_path / "step.1.et")
    (tmp_path / "step.4.et").write_bytes(METADATA)
    with pytest.raises(UsageError):
        read_chakra(tmp_path)
    (tmp_path / "step.4.et").rename(tmp_path / "more.0.et")
    with pytest.raises(UsageError, match="several names"):
        read_chakra(tmp_path)


def test_no_byte_that_changes_is_worse_than_a_sentence(tmp_path: Path) -> None:
    write_chakra(pipeline(), tmp_path)
    path = tmp_path / "step.0.et"
    content = path.read_bytes()
    random = np.random.default_rng(0)
    refused = 0
    for at in random.integers(0, len(content), 400).tolist():
        path.write_bytes(content[:at] + random.bytes(1) + content[at + 1 :])
        try:
            read_chakra(tmp_path)
        except UsageError as error:
            refused += 1
            assert "\n" not in str(error)
    assert refused > 20


@pytest.mark.parametrize("value", [0, -1, (1 << 63) - 1, -(1 << 63), b"", b"\0 raw", "", (1, -2)])
def test_an_attribute_is_read_as_it_was_written(value) -> None:
    node = Node(id=1, name="n", type=NodeType.COMP, attributes={"one": value})
    one, _ = read_sized(node_record(node), 0)
    assert read_node(one).attributes == {"one": value}


@pytest.mark.parametrize("value", [1 << 63, -(1 << 63) - 1])
def test_an_attribute_above_64_bits_is_refused(value) -> None:
    node = Node(id=1, name="n", type=NodeType.COMP, attributes={"one": value})
    with pytest.raises(UsageError, match=r"one is .*: a Chakra trace holds numbers of 64 bits"):
        node_record(node)


def test_a_count_above_64_bits_is_refused(tmp_path: Path) -> None:
    op = Collective(name="huge", kind="all_reduce", group=("dp",), nbytes=1 << 63)
    program = Program(name="", axes={"dp": 1}, lists=((op,),), class_of=np.zeros(1, np.int32))
    with pytest.raises(UsageError, match="numbers of 64 bits"):
        write_chakra(program, tmp_path)
