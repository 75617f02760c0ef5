"""Faults of links in a timeline: in every step that they touched, and in no figure."""

from pathlib import Path

import numpy as np

from steptime.timeline import Phase, Recorder, phases_of_steps
from steptime.timeline.chrome import packed_chrome_trace, read_chrome_trace


def recorded(*, disturbed: bool) -> Recorder:
    """Three steps of a second each, in which half is computed."""
    recorder = Recorder(lambda: 0.0)
    for step in range(3):
        recorder.begin_step(step)
        recorder.add("compute", "forward", Phase.COMPUTE, step, step + 0.5)
        recorder.add("step", "ring", Phase.STEP, step, step + 1.0)
    if disturbed:
        recorder.disturbed("host1 cut off", 0.75, 2.25)
        recorder.disturbed("of another time", 5.0, float("inf"))
    return recorder


def test_a_fault_is_marked_in_the_steps_that_it_touched(tmp_path: Path) -> None:
    file = tmp_path / "trace.json.gz"
    file.write_bytes(packed_chrome_trace(recorded(disturbed=True).timeline(0, 1)))
    timeline = read_chrome_trace(file)
    rows = timeline.intervals[timeline.intervals["phase"] == Phase.FAULT]
    assert [(row["step"], row["start"], row["end"]) for row in rows] == [
        (0, 0.75, 1.0),
        (1, 1.0, 2.0),
        (2, 2.0, 2.25),
    ]
    assert {timeline.names[name] for name in rows["name"]} == {"host1 cut off"}
    assert {timeline.streams[stream] for stream in rows["stream"]} == {"faults"}


def test_a_fault_is_no_work() -> None:
    calm, disturbed = (
        phases_of_steps(recorded(disturbed=wanted).timeline(0, 1), "ring")
        for wanted in (False, True)
    )
    for part in calm.dtype.names or ():
        np.testing.assert_array_equal(calm[part], disturbed[part])
