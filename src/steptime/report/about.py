"""What a run says of itself: how many ranks, where, and how its figures came about."""

from collections.abc import Iterable, Mapping
from typing import Any


def world_size(run: Mapping[str, Any]) -> int:
    """How many ranks the run had, or would have."""
    return int(run["world_size"] if "world_size" in run else run["ranks"])


def rank_counts(run: Mapping[str, Any]) -> str:
    """The same in words, where strategies may have different ranks: ``8 or 9 ranks``."""
    counts = sorted({len(entry["ranks"]) for entry in run["strategies"].values()})
    texts = [f"{count:,}" for count in counts]
    return f"{' or '.join(texts)} rank{'s' * (counts[-1] != 1)}"


def place(run: Mapping[str, Any]) -> str:
    """Where its figures hold: ``here`` or ``on CLUSTER``."""
    return f"on {run['cluster']}" if "cluster" in run else "here"


def sources(entries: Iterable[Mapping[str, Any]]) -> str:
    """How the times of these strategies came about: ``measured``, or ``measured, simulated``."""
    return ", ".join(dict.fromkeys(entry["source"] for entry in entries))


def byte_sources(entries: Iterable[Mapping[str, Any]]) -> str:
    """How their bytes came about: a live run computes them, a simulation counts its messages."""
    return ", ".join(
        dict.fromkeys(
            "simulated" if entry["source"] == "simulated" else "computed" for entry in entries
        )
    )
