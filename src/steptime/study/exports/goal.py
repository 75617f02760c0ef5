"""a LogGOPSim schedule."""

from collections.abc import Mapping, Sequence
from typing import Any

from steptime.errors import UsageError
from steptime.files import atomic_file
from steptime.program.goal import ProgramGoal
from steptime.study.export import Export, Exported, Exporting, file_name


def write(asked: Exporting) -> Exported:
    """A GOAL text for each program."""
    goals = [ProgramGoal(one, asked.algorithms) for one in asked.programs]
    rows = [
        {"name": goal.program.name, "messages": goal.messages, "algorithms": goal.chosen}
        for goal in goals
    ]
    _refuse_unread(asked.algorithms, rows)
    files = []
    for goal in goals:
        own = f"{file_name(goal.program.name)}.goal" if len(goals) > 1 else "step.goal"
        files.append(asked.folder / (asked.name or own))
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
