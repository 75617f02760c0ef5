"""Chakra execution traces, one .et a rank."""

from steptime.program.chakra import write_chakra
from steptime.study.export import Export, Exported, Exporting, file_name


def write(asked: Exporting) -> Exported:
    """A folder of traces for each program."""
    folder = asked.folder if asked.out else asked.folder / "chakra"
    files = []
    for one in asked.programs:
        own = folder / file_name(one.program.name) if len(asked.programs) > 1 else folder
        write_chakra(one.program, own, asked.tell)
        files += [own / f"step.{rank}.et" for rank in range(one.program.ranks)]
        files.append(own / "comm_groups.json")
    facts = {"programs": [one.program.name for one in asked.programs]}
    return Exported(to=asked.to, files=tuple(files), facts=facts)


EXPORT = Export(
    opened_by=("ASTRA-sim reads a folder as its workload: --workload-configuration=FOLDER/step"),
    of_programs=write,
    takes=("strategy",),
)
