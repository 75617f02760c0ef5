"""Timelines cut to a span of time, merged, and written as tables."""

import sys

import numpy as np
import pytest

from steptime.errors import UsageError
from steptime.timeline import INTERVAL, MESSAGE, Phase, Timeline, merge
from steptime.timeline.tables import write_parquet


def timeline_of(*spans: tuple[float, float], source: str = "measured") -> Timeline:
    """A rank that computes and sends in each of these spans."""
    rows = [(0, 0, 0, Phase.COMPUTE, 0, begin, end, 0, begin) for begin, end in spans]
    messages = [(0, 1, begin, end, 8) for begin, end in spans]
    return Timeline(
        source=source,
        ranks=2,
        names=("a",),
        streams=("compute",),
        intervals=np.array(rows, INTERVAL),
        messages=np.array(messages, MESSAGE),
    )


def test_what_overlaps_a_span_is_kept_and_what_only_touches_it_is_not() -> None:
    spans = [(0, 1), (0, 2), (1, 2), (2, 3), (2, 5), (0, 5), (3, 4), (4, 5)]
    found = timeline_of(*spans).between(1, 3)
    kept = [(0, 2), (1, 2), (2, 3), (2, 5), (0, 5)]
    assert found.intervals[["start", "end"]].tolist() == kept
    assert found.messages[["sent", "received"]].tolist() == kept


def test_timelines_of_different_sources_are_not_merged() -> None:
    with pytest.raises(ValueError, match="different sources"):
        merge([timeline_of((0, 1)), timeline_of((0, 1), source="simulated")])


def test_parquet_without_its_package_is_refused_in_a_sentence(tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(UsageError, match="needs the package pyarrow"):
        write_parquet(tmp_path / "a.parquet", {"rank": np.zeros(1)})
