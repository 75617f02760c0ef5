"""Where the ends of messages lie on the tracks of a trace."""

import numpy as np

from steptime.timeline import INTERVAL, MESSAGE, Phase, Timeline
from steptime.timeline.tracks import NONE, ends_on_tracks, tracks


def test_an_end_lies_on_a_track_on_which_anything_still_runs() -> None:
    """Also where a slice within the one around it has begun later and is over."""
    rows = [
        (0, 0, 0, Phase.COMPUTE, 0, 0.0, 10e-9, 0, 0.0),
        (0, 0, 0, Phase.COMPUTE, 0, 1e-9, 2e-9, 0, 0.0),
        (0, 0, 0, Phase.COMPUTE, 0, 20e-9, 30e-9, 0, 0.0),
    ]
    timeline = Timeline(
        source="measured",
        ranks=1,
        names=("a",),
        streams=("compute",),
        intervals=np.array(rows, INTERVAL),
        messages=np.empty(0, MESSAGE),
    )
    at = np.array([5, 10, 15, 20, 30])
    found, begin = ends_on_tracks(timeline, tracks(timeline, nested=True), np.zeros(5, int), at)
    assert found.tolist() == [0, NONE, NONE, 0, NONE]
    assert begin[1:].tolist() == [10, 15, 20, 30]
