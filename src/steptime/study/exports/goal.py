"""a LogGOPSim schedule, a rank's streams on one cpu."""

from collections.abc import Mapping, Sequence
from typing import Any

from steptime.errors import UsageError
from steptime.files import atomic_file
from steptime.program.goal import ProgramGoal
from steptime.study.export import Export, Exported, Exporting, file_name


def write(asked: Exporting, *, suffix: str = ".goal", cpus: bool = False) -> Exported:
    """A GOAL text for each program; ``cpus``: with a cpu for each stream, as ATLAHS reads them."""
    goals = [ProgramGoal(one, asked.algorithms, cpus=cpus) for one in asked.programs]
    rows = [
        {"name": goal.program.name, "messages": goal.messages, "algorithms": goal.chosen}
        for goal in goals
    ]
    _refuse_unread(asked.algorithms, rows)
    files = []
    for goal in goals:
        own = file_name(goal.program.name) if len(goals) > 1 else "step"
        files.append(asked.folder / (asked.name or own + suffix))
        with atomic_file(files[-1]) as file:
            for done, text in enumerate(goal.text()):
                file.write(text.encode())
                asked.tell(done, goal.program.ranks)
    return Exported(to=asked.to, files=tuple(files), facts={"programs": rows})


def _refuse_unread(algorithms: Mapping[str, str], rows: Sequence[Mapping[str, Any]]) -> None:
    called = {kind for row in rows for kind in row["algorithms"]}
    for kind in algorithms:
        if kind not in called:
            raise UsageError(f"--algorithm names one of {kind}, and no step calls it: leave it out")


EXPORT = Export(
    opened_by="LogGOPSim: txt2bin -i FILE -o step.bin, then LogGOPSim -f step.bin",
    of_programs=write,
    suffixes=(".goal",),
    takes=("strategy", "algorithms"),
)
