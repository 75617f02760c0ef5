import gzip
import json

import numpy as np
import pytest

from steptime.errors import UsageError
from steptime.timeline import (
    INTERVAL,
    MESSAGE,
    Phase,
    Recorder,
    Timeline,
    merge,
    read_chrome_trace,
    write_chrome_trace,
)


def overlapping() -> Timeline:
    """Two buckets in flight at once on the stream comm, behind one backward."""
    return Timeline(
        source="measured",
        ranks=2,
        names=("ring", "backward", "bucket"),
        streams=("step", "compute", "comm"),
        intervals=np.array(
            [
                (0, 0, 0, Phase.STEP, 3, 0.0, 1.0, 0),
                (0, 1, 1, Phase.COMPUTE, 3, 0.0, 0.5, 0),
                (0, 2, 2, Phase.COMMUNICATION, 3, 0.1, 0.4, 100),
                (0, 2, 2, Phase.COMMUNICATION, 3, 0.2, 0.6, 200),
                (1, 1, 1, Phase.COMPUTE, 3, 0.1, 0.5, 0),
            ],
            dtype=INTERVAL,
        ),
        messages=np.array([(0, 1, 0.1, 0.3, 100)], dtype=MESSAGE),
    )


def test_a_timeline_survives_the_round_trip(tmp_path):
    path = tmp_path / "trace.json.gz"
    before = overlapping()
    write_chrome_trace(path, before)
    after = read_chrome_trace(path)
    assert (after.source, after.ranks) == (before.source, before.ranks)

    def rows(timeline):
        return sorted(
            (
                int(r["rank"]),
                timeline.streams[r["stream"]],
                timeline.names[r["name"]],
                int(r["phase"]),
                int(r["step"]),
                round(float(r["start"]), 9),
                round(float(r["end"]), 9),
                int(r["bytes"]),
            )
            for r in timeline.intervals
        )

    assert rows(after) == rows(before)
    assert after.messages.tolist()[0] == pytest.approx(before.messages.tolist()[0])


def test_slices_of_one_thread_nest_or_are_disjoint(tmp_path):
    path = tmp_path / "trace.json.gz"
    write_chrome_trace(path, overlapping())
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    slices = [e for e in events if e["ph"] == "X"]
    for a in slices:
        for b in slices:
            if a is b or (a["pid"], a["tid"]) != (b["pid"], b["tid"]):
                continue
            (s, e), (t, f) = ((x["ts"], x["ts"] + x["dur"]) for x in (a, b))
            assert e <= t or f <= s or (s <= t and f <= e) or (t <= s and e <= f)
    threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["ph"] == "M"}
    assert [threads[e["pid"], e["tid"]] for e in slices if e["name"] == "bucket"] == ["comm"] * 2


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "cannot read"),
        (gzip.compress(b'{"traceEvents": []}'), "otherData"),
        (gzip.compress(b'{"otherData": {"format": "x"}}'), "another program"),
        (
            gzip.compress(b'{"otherData": {"format": "steptime-trace", "version": 99}}'),
            "version 99",
        ),
    ],
)
def test_a_bad_trace_is_refused_in_one_sentence(tmp_path, content, complaint):
    path = tmp_path / "trace.json.gz"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=complaint) as error:
        read_chrome_trace(path)
    assert "\n" not in str(error.value)


def test_a_truncated_trace_is_refused(tmp_path):
    path = tmp_path / "trace.json.gz"
    write_chrome_trace(path, overlapping())
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(UsageError, match="cannot read the trace"):
        read_chrome_trace(path)


def test_recorders_of_two_ranks_merge_into_one_timeline():
    ticks = iter(range(100))
    timelines = []
    for rank, name in enumerate(("alone", "both")):
        recorder = Recorder(clock=lambda: next(ticks))
        recorder.step = 7
        with (
            recorder.span("step", "both", Phase.STEP),
            recorder.span("compute", name, Phase.COMPUTE, payload=5),
        ):
            pass
        timelines.append(recorder.timeline(rank, 2))
    merged = merge(timelines)
    assert merged.ranks == 2
    seen = [
        (int(r["rank"]), merged.streams[r["stream"]], merged.names[r["name"]], float(r["start"]))
        for r in merged.intervals
    ]
    assert seen == [
        (0, "compute", "alone", 1.0),
        (0, "step", "both", 0.0),
        (1, "compute", "both", 5.0),
        (1, "step", "both", 4.0),
    ]
    assert set(merged.intervals["step"]) == {7}
