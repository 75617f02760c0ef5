"""Timeline: what happened, or would happen: intervals and messages per rank and stream."""

from steptime.timeline.chrome import packed_chrome_trace, read_chrome_trace, write_chrome_trace
from steptime.timeline.phases import EXPOSED, PHASES, phases_of_steps
from steptime.timeline.recorder import Recorder, computing, recording, stepping
from steptime.timeline.timeline import INTERVAL, MESSAGE, Clock, Phase, Source, Timeline, merge

__all__ = [
    "EXPOSED",
    "INTERVAL",
    "MESSAGE",
    "PHASES",
    "Clock",
    "Phase",
    "Recorder",
    "Source",
    "Timeline",
    "computing",
    "merge",
    "packed_chrome_trace",
    "phases_of_steps",
    "read_chrome_trace",
    "recording",
    "stepping",
    "write_chrome_trace",
]
