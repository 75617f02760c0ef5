"""a GOAL schedule for ATLAHS, each stream on its cpu."""

from functools import partial

from steptime.study.export import Export
from steptime.study.exports.goal import write

EXPORT = Export(
    opened_by="ATLAHS's LogGOPSim: txt2bin -i FILE -o step.bin, then LogGOPSim -f step.bin",
    of_programs=partial(write, suffix=".atlahs.goal", cpus=True),
    suffixes=(".goal",),
    takes=("strategy", "algorithms"),
)
