"""The XML carried out by an interpreter with MSCCL's rules, against the collectives' definition."""

from collections import defaultdict, deque
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from steptime.collectives import (
    Algorithm,
    Schedule,
    algorithm,
    algorithm_named,
    all_algorithms,
    schedule,
    send,
)
from steptime.collectives.export import msccl, msccl_xml
from steptime.errors import UsageError

FIFO = 2  # messages that a connection holds before a send must wait
EXPORTED = [a for a in all_algorithms() if a.collective.name != "barrier"]


def parsed(xml: str) -> ElementTree.Element:
    return ElementTree.fromstring(xml)  # noqa: S314 - it is our own


@dataclass
class Block:
    """A thread block under way: its next step, and the last that others may rely on."""

    gpu: int
    send: int
    recv: int
    steps: list[dict[str, str]]
    next: int = 0

    @property
    def ended(self) -> bool:
        return self.next == len(self.steps)


def interpret(xml: str, memory: Any, seed: int) -> None:
    """Carry out the program on ``memory[gpu][buffer]``, one ready step at random at a time."""
    rng = np.random.default_rng(seed)
    root = parsed(xml)
    blocks = [
        Block(
            int(gpu.attrib["id"]),
            int(tb.attrib["send"]),
            int(tb.attrib["recv"]),
            [s.attrib for s in tb],
        )
        for gpu in root
        for tb in gpu
    ]
    number = {
        (int(gpu.attrib["id"]), int(tb.attrib["id"])): i
        for i, (gpu, tb) in enumerate((gpu, tb) for gpu in root for tb in gpu)
    }
    wires: dict[tuple[int, int], deque[Any]] = defaultdict(deque)

    def ready(block: Block) -> bool:
        if block.ended:
            return False
        step = block.steps[block.next]
        if step["depid"] != "-1":
            other = blocks[number[block.gpu, int(step["depid"])]]
            assert other.steps[int(step["deps"])]["hasdep"] == "1"
            if other.next <= int(step["deps"]):
                return False
        if step["type"] == "s":
            return len(wires[block.gpu, block.send]) < FIFO
        return step["type"] not in ("r", "rrc") or bool(wires[block.recv, block.gpu])

    while not all(block.ended for block in blocks):
        able = [block for block in blocks if ready(block)]
        assert able, "deadlock"
        block = able[rng.integers(len(able))]
        carry_out(block.steps[block.next], block, memory[block.gpu], wires)
        block.next += 1
    assert not any(wires.values())


def carry_out(step: dict[str, str], block: Block, memory: Any, wires: Any) -> None:
    kind, count = step["type"], int(step["cnt"])

    def view(end: str) -> Any:
        first = int(step[f"{end}off"])
        return memory[step[f"{end}buf"]][first : first + count]

    if kind == "s":
        wires[block.gpu, block.send].append(view("src").copy())
    elif kind == "r":
        view("dst")[:] = wires[block.recv, block.gpu].popleft()
    elif kind == "rrc":
        view("dst")[:] = view("src") + wires[block.recv, block.gpu].popleft()
    elif kind == "cpy":
        view("dst")[:] = view("src")
    elif kind == "re":
        view("dst")[:] += view("src")
    else:
        assert kind == "nop"
        assert count == 0


def memory_before(made: Schedule, values: Any) -> tuple[list[dict[str, Any]], str, str]:
    """The buffers of every GPU, and which hold the vector and the result."""
    vector = "o" if made.collective.name == "all_gather" else "i"
    result = "o" if made.collective.separate_result else vector
    sizes = {"i": made.chunks, "o": made.chunks, "s": made.scratch}
    memory = [
        {name: np.full(size, -(10**9)) for name, size in sizes.items()} for _ in range(made.ranks)
    ]
    for rank, slot, origin, index in made.collective.before(made.ranks, made.chunks, made.root):
        memory[rank][vector][slot] = values[origin, index]
    return memory, vector, result


def wrong_slots(made: Schedule, xml: str, seed: int) -> int:
    """Slots that end with something else than the definition says."""
    values = np.random.default_rng(seed).integers(0, 10**6, (made.ranks, made.chunks))
    memory, _, result = memory_before(made, values)
    interpret(xml, memory, seed)
    wanted: dict[tuple[int, int], int] = defaultdict(int)
    for rank, slot, origin, index in made.collective.after(made.ranks, made.chunks, made.root):
        wanted[rank, slot] += values[origin, index]
    return sum(memory[rank][result][slot] != value for (rank, slot), value in wanted.items())


@pytest.mark.parametrize("chosen", EXPORTED, ids=lambda a: f"{a.collective.name}-{a.name}")
def test_the_program_does_what_the_collective_is_defined_to_do(chosen: Algorithm) -> None:
    for ranks in (1, 2, 3, 5, 8):
        if chosen.serves(ranks):
            made = schedule(chosen, ranks, root=ranks // 2)
            xml = msccl_xml(made)
            assert [wrong_slots(made, xml, seed) for seed in range(3)] == [0, 0, 0]


def test_without_its_dependences_a_program_goes_wrong() -> None:
    made = schedule(algorithm_named("all_reduce", "ring"), 4)
    root = parsed(msccl_xml(made))
    for step in root.iter("step"):
        step.attrib |= {"depid": "-1", "deps": "-1"}
    xml = ElementTree.tostring(root, encoding="unicode")
    assert any(wrong_slots(made, xml, seed) for seed in range(20))


def test_a_program_has_the_attributes_that_the_runtime_reads() -> None:
    root = parsed(msccl_xml(schedule(algorithm_named("all_gather", "ring"), 3)))
    assert root.tag == "algo"
    assert root.attrib == {
        "name": "all_gather_ring_3",
        "proto": "Simple",
        "nchannels": "1",
        "nchunksperloop": "3",
        "ngpus": "3",
        "coll": "allgather",
        "inplace": "1",
    }
    gpu = root[1]
    assert gpu.attrib == {"id": "1", "i_chunks": "1", "o_chunks": "3", "s_chunks": "0"}
    assert [(tb.attrib["send"], tb.attrib["recv"]) for tb in gpu] == [("-1", "0"), ("2", "-1")]
    assert [step.attrib["type"] for step in gpu[0]] == ["r", "r"]
    assert "depid" in gpu[1][1].attrib


def test_a_step_that_waits_for_several_others_has_nops_before_it() -> None:
    xml = msccl_xml(schedule(algorithm_named("all_reduce", "recursive_doubling"), 8))
    steps = [step.attrib for step in parsed(xml).iter("step")]
    nops = [step for step in steps if step["type"] == "nop"]
    assert nops
    assert all(step["depid"] != "-1" and step["hasdep"] == "0" for step in nops)


def test_what_the_runtime_cannot_do_is_refused() -> None:
    with pytest.raises(UsageError, match="MSCCL has no barrier"):
        msccl_xml(schedule(algorithm_named("barrier", "dissemination"), 4))
    with pytest.raises(UsageError, match="63 peers on a channel and MSCCL has at most 32"):
        msccl_xml(schedule(algorithm_named("all_reduce", "flat"), 64))
    with pytest.raises(UsageError, match="298 steps in a thread block"):
        msccl_xml(schedule(algorithm_named("all_reduce", "ring"), 150))


@pytest.mark.parametrize(
    ("limit", "sentence"),
    [("_MAX_PEERS", "5 peers on a channel"), ("_MAX_BLOCKS", "5 thread blocks on a GPU")],
)
def test_the_rank_that_needs_the_most_is_held_against_the_limits(
    limit: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rank 1 of six gathers from all others, each of which has one peer."""
    made = schedule(algorithm_named("gather", "flat"), 6, root=1)
    assert "algo" in msccl_xml(made)
    monkeypatch.setattr(msccl, limit, 4)
    with pytest.raises(UsageError, match=f"needs {sentence} and MSCCL has at most 4"):
        msccl_xml(made)


def test_a_range_too_long_for_one_step_is_cut() -> None:
    @algorithm("broadcast", chunks=lambda: 200)
    def at_once(ranks: int) -> Any:
        yield send(0, np.arange(1, ranks), 0, 200)

    made = schedule(at_once, 3)
    xml = msccl_xml(made)
    counts = [int(step.attrib["cnt"]) for step in parsed(xml).iter("step")]
    assert max(counts) < 72
    assert wrong_slots(made, xml, 0) == 0
