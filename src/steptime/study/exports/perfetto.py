"""a Chrome trace of all ranks."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from steptime.runs.record import RunRecord
from steptime.study.export import Export, Exporting, hosts_of
from steptime.timeline import Timeline
from steptime.timeline.chrome import Counter, of_rank, write_chrome_trace


def write(asked: Exporting) -> list[Path]:
    """One trace, or one a rank, as HTA reads them."""
    timeline, folder = asked.timeline, asked.folder
    hosts = hosts_of(asked)
    if not asked.per_rank:
        path = folder / (asked.name or "perfetto.json.gz")
        counters = list(_link_counters(asked.record, timeline))
        write_chrome_trace(path, timeline, counters=counters, hosts=hosts, tell=asked.tell)
        return [path]
    paths = []
    ranks = np.unique(timeline.intervals["rank"]).tolist()
    for done, rank in enumerate(ranks, start=1):
        paths.append(folder / f"rank{rank}.json.gz")
        write_chrome_trace(paths[-1], of_rank(timeline, rank), hosts=hosts, rank=rank)
        asked.tell(done, len(ranks))
    return paths


def _link_counters(record: RunRecord | None, timeline: Timeline) -> Iterator[Counter]:
    """How busy the busiest links were in the last step of each strategy that was simulated."""
    for name, figures in record.strategies.items() if record else ():
        use, steps = figures.link_use, timeline.steps_named(name)
        if not use or not steps.size:
            continue
        last = steps[steps["step"] == steps["step"].max()]
        begin = float(last["start"].min()) + use.begin_s
        for link, values in zip(use.links, use.utilisation, strict=True):
            at = begin + use.bin_s * np.arange(len(values) + 1.0)
            yield Counter(f"use of {link}", at, np.array([*values, 0.0]))


EXPORT = Export(
    opened_by="open it at ui.perfetto.dev",
    write=write,
    suffixes=(".json", ".json.gz"),
    takes=("per_rank",),
)
