"""Timeline: what happened, or would happen: intervals and messages per rank and stream."""

from steptime.timeline.chrome import read_chrome_trace, write_chrome_trace
from steptime.timeline.phases import PHASES, phases_of_steps
from steptime.timeline.recorder import Recorder, recording
from steptime.timeline.timeline import INTERVAL, MESSAGE, Clock, Phase, Source, Timeline, merge

__all__ = [
    "INTERVAL",
    "MESSAGE",
    "PHASES",
    "Clock",
    "Phase",
    "Recorder",
    "Source",
    "Timeline",
    "merge",
    "phases_of_steps",
    "read_chrome_trace",
    "recording",
    "write_chrome_trace",
]
