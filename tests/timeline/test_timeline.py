"""Timelines cut to a span of time, merged, and written as tables."""

import sys

import numpy as np
import pytest
from pyarrow import parquet

from steptime.errors import UsageError
from steptime.timeline import (
    INTERVAL,
    MESSAGE,
    Phase,
    Timeline,
    merge,
    packed_chrome_trace,
    read_chrome_trace,
)
from steptime.timeline.tables import write_csv, write_parquet


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


@pytest.mark.parametrize("write", [write_csv, write_parquet])
def test_a_table_tells_how_far_it_is_until_it_is_whole(tmp_path, write) -> None:
    told: list[tuple[int, int]] = []
    path = tmp_path / "table"
    write(path, {"rank": np.arange(50_000)}, lambda *now: told.append(now))
    assert told == sorted(told)
    assert told[-1] == (50_000, 50_000)
    if write is write_csv:
        assert path.read_text().split() == ["rank", *map(str, range(50_000))]
    else:
        assert parquet.read_table(path)["rank"].to_pylist() == list(range(50_000))


def test_a_packed_trace_is_the_file_that_would_be_written(tmp_path) -> None:
    timeline = timeline_of((0, 1), (1, 2))
    (tmp_path / "packed.json.gz").write_bytes(packed_chrome_trace(timeline))
    found = read_chrome_trace(tmp_path / "packed.json.gz")
    assert found.intervals.tolist() == timeline.intervals.tolist()
    assert found.messages.tolist() == timeline.messages.tolist()


def test_parquet_without_its_package_is_refused_in_a_sentence(tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(UsageError, match="needs the package pyarrow"):
        write_parquet(tmp_path / "a.parquet", {"rank": np.zeros(1)})
