import gzip
import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steptime.errors import UsageError
from steptime.timeline import (
    INTERVAL,
    MESSAGE,
    Clock,
    Phase,
    Recorder,
    Timeline,
    merge,
    read_chrome_trace,
    write_chrome_trace,
)
from steptime.timeline.chrome import of_rank


def overlapping() -> Timeline:
    """Two buckets in flight at once on the stream comm, behind one backward."""
    return Timeline(
        source="measured",
        ranks=2,
        names=("ring", "backward", "bucket"),
        streams=("step", "compute", "comm"),
        intervals=np.array(
            [
                (0, 0, 0, Phase.STEP, 3, 0.0, 1.0, 0, 0),
                (0, 1, 1, Phase.COMPUTE, 3, 0.0, 0.5, 0, 0),
                (0, 2, 2, Phase.COMMUNICATION, 3, 0.1, 0.4, 100, 0.25),
                (0, 2, 2, Phase.COMMUNICATION, 3, 0.2, 0.6, 200, 0),
                (1, 1, 1, Phase.COMPUTE, 3, 0.1, 0.5, 0, 0),
            ],
            dtype=INTERVAL,
        ),
        messages=np.array([(0, 1, 0.1, 0.3, 100)], dtype=MESSAGE),
        bubble=0.4375,
    )


@pytest.mark.parametrize("since_boot", [0.0, 7.0])
def test_a_timeline_survives_the_round_trip(tmp_path, since_boot):
    path = tmp_path / "trace.json.gz"
    before = overlapping()
    for rows, fields in ((before.intervals, ("start", "end")), (before.messages, MESSAGE.names)):
        for field in {*fields} & {"start", "end", "sent", "received"}:
            rows[field] += since_boot
    write_chrome_trace(path, before)
    after = read_chrome_trace(path)
    assert (after.source, after.ranks) == (before.source, before.ranks)
    assert after.bubble == before.bubble == 0.4375

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
                max(float(r["start"]), round(float(r["ready"]), 9)),
            )
            for r in timeline.intervals
        )

    assert rows(after) == rows(before)
    assert after.messages.tolist()[0] == pytest.approx(before.messages.tolist()[0])


def test_the_timeline_of_one_rank_has_its_intervals_alone():
    own = of_rank(overlapping(), 1)
    assert own.intervals["rank"].tolist() == [1]
    assert not len(own.messages)
    assert own.ranks == 2


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
    threads = {
        (e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"
    }
    assert [threads[e["pid"], e["tid"]] for e in slices if e["name"] == "bucket"] == ["comm"] * 2


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "cannot read"),
        (gzip.compress(b'{"traceEvents": []}', mtime=0), "otherData"),
        (gzip.compress(b'{"otherData": {"format": "x"}}', mtime=0), "another program"),
        (
            gzip.compress(b'{"otherData": {"format": "steptime-trace", "version": 99}}', mtime=0),
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


def slices_around(events, arrow):
    """The slices that a viewer finds open at the end of an arrow: one that ends then is over."""
    return [
        e
        for e in events
        if e["ph"] == "X"
        and (e["pid"], e["tid"]) == (arrow["pid"], arrow["tid"])
        and round(e["ts"] * 1000) <= round(arrow["ts"] * 1000)
        and round((e["ts"] + e["dur"]) * 1000) > round(arrow["ts"] * 1000)
    ]


def test_arrows_begin_and_end_inside_slices_of_communication(tmp_path):
    """Also where a rank shows nothing then, or nothing at all."""
    path = tmp_path / "trace.json"
    before = overlapping()
    sent = [(0, 1, 0.2, 0.6, 5), (1, 0, 0.3, 0.4, 6), (0, 3, 0.9, 1.0, 7), (1, 0, 0.7, 2.0, 8)]
    before = replace(before, ranks=4, messages=np.array(sent, MESSAGE))
    write_chrome_trace(path, before)
    events = json.loads(path.read_text())["traceEvents"]
    arrows = [e for e in events if e["ph"] in "sf"]
    assert len(arrows) == 2 * len(sent)
    assert all(slices_around(events, arrow) for arrow in arrows)
    assert all(arrow["bp"] == "e" for arrow in arrows if arrow["ph"] == "f")
    first = next(e for e in arrows if e["ph"] == "s" and e["id"] == 0)
    assert {e["name"] for e in slices_around(events, first)} == {"bucket"}
    threads = [e for e in events if e["name"] == "thread_name"]
    named = {(e["pid"], e["tid"]) for e in threads}
    assert {(e["pid"], e["tid"]) for e in events if e["ph"] == "X"} <= named
    assert read_chrome_trace(path).messages.tolist() == before.messages.tolist()
    assert len(read_chrome_trace(path).intervals) == len(before.intervals)


@given(
    st.lists(st.tuples(st.floats(0, 1e-6), st.floats(0, 1e-6)), max_size=20),
    st.sampled_from([0.0, 86_400.0 * 300]),
)
def test_what_nests_still_nests_when_times_are_rounded(tmp_path_factory, spans, origin):
    path = tmp_path_factory.mktemp("nested") / "trace.json"
    rows = [(0, 0, 0, Phase.COMPUTE, 0, origin + min(s), origin + max(s), 0, 0) for s in spans]
    timeline = replace(
        overlapping(), intervals=np.array(rows, INTERVAL), messages=np.empty(0, MESSAGE)
    )
    write_chrome_trace(path, timeline)
    events = [e for e in json.loads(path.read_text())["traceEvents"] if e["ph"] == "X"]
    edges = [
        (e["tid"], round(e["ts"] * 1000), round(e["ts"] * 1000) + round(e["dur"] * 1000))
        for e in events
    ]
    for i, (thread, s, e) in enumerate(edges):
        for other, t, f in edges[:i]:
            apart = e <= t or f <= s
            assert thread != other or apart or (s <= t and f <= e) or (t <= s and e <= f)
    again = np.sort(read_chrome_trace(path).intervals, order=["start", "end"])
    before = np.sort(timeline.intervals, order=["start", "end"])
    assert np.abs(again["start"] - before["start"]).max(initial=0) <= 1e-8


def test_a_trace_says_how_its_clocks_were_aligned(tmp_path):
    clocks = (
        Clock(host="a", ranks=(0,), offset_s=0.0, error_s=0.0),
        Clock(host="b", ranks=(1,), offset_s=5000.25, error_s=3e-5, drift_s=1e-6),
    )
    path = tmp_path / "trace.json.gz"
    write_chrome_trace(path, replace(overlapping(), clocks=clocks))
    assert read_chrome_trace(path).clocks == clocks
    about = json.loads(gzip.decompress(path.read_bytes()))["otherData"]
    assert about["clock"][1]["error_s"] == 3e-5


def test_writing_tells_how_far_it_is(tmp_path):
    heard = []
    write_chrome_trace(
        tmp_path / "t.json", overlapping(), tell=lambda done, whole: heard.append((done, whole))
    )
    assert heard[-1] == (6, 6)
