"""Reading a page's packed steps back, as its trace.js does."""

import zlib
from dataclasses import dataclass
from json import loads
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Bar:
    """An interval: times in seconds from the step's begin."""

    name: str
    phase: int
    bytes: int
    rank: int
    stream: str
    row: int
    lane: int
    start: float
    end: float


def unpacked(text: str) -> tuple[dict[str, Any], list[list[Bar]]]:
    """What the JSON says, and the intervals of each step."""
    raw = unpacked_bytes(text)
    size = int.from_bytes(raw[:4], "little")
    head = loads(zlib.decompress(raw[4 : 4 + size]))
    planes = np.frombuffer(zlib.decompress(raw[4 + size :]), np.uint8)
    planes = planes.reshape(3, 4, head["intervals"])
    columns = np.ascontiguousarray(np.moveaxis(planes, 1, 2)).view("<i4")[:, :, 0]
    steps, first = [], 0
    for step in head["steps"]:
        found = []
        for row, lane, of, count in zip(*step["tracks"], strict=True):
            assert 0 <= lane < of
            before = 0
            for kind, gap, lasts in columns[:, first : first + count].T.tolist():
                start, before = before + gap, before + gap + lasts
                found.append(_bar(head, kind, row, lane, start, before))
            first += count
        steps.append(found)
    assert first == head["intervals"]
    return head, steps


def unpacked_bytes(text: str) -> bytes:
    """The bytes of which each character holds seven bits."""
    codes = np.array([[ord(letter) & 127] for letter in text], np.uint8)
    bits = np.unpackbits(codes, axis=1)[:, 1:].ravel()
    return np.packbits(bits[: len(bits) // 8 * 8]).tobytes()


def _bar(head: dict[str, Any], kind: int, row: int, lane: int, start: int, end: int) -> Bar:
    name, phase, _, nbytes = head["kinds"][kind]
    place, label = head["rows"][row]
    tick = head["tick"]
    return Bar(
        head["names"][name],
        phase,
        nbytes,
        head["ranks"][place],
        label,
        row,
        lane,
        start * tick,
        end * tick,
    )
