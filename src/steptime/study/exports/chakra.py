"""Chakra execution traces, one .et a rank."""

from steptime.program import Collective
from steptime.program.chakra import write_chakra
from steptime.study.export import Export, Exported, Exporting, file_name

_IN_ASTRA_SIM = frozenset({"all_reduce", "all_gather", "reduce_scatter", "all_to_all"})
"""The collectives that ASTRA-sim carries out (Workload.cc in astra-sim/astra-sim@4f387bc)."""


def write(asked: Exporting) -> Exported:
    """A folder of traces for each program."""
    folder = asked.folder if asked.out else asked.folder / "chakra"
    files = []
    for one in asked.programs:
        own = folder / file_name(one.program.name) if len(asked.programs) > 1 else folder
        write_chakra(one.program, own, asked.tell, one.seconds)
        files += [own / f"step.{rank}.et" for rank in range(one.program.ranks)]
        files.append(own / "comm_groups.json")
    ops = (op for one in asked.programs for ops in one.program.lists for op in ops)
    called = {op.kind for op in ops if isinstance(op, Collective)}
    facts = {
        "programs": [one.program.name for one in asked.programs],
        "not_in_astra_sim": sorted(called - _IN_ASTRA_SIM),
    }
    return Exported(to=asked.to, files=tuple(files), facts=facts)


EXPORT = Export(
    opened_by=("ASTRA-sim reads a folder as its workload: --workload-configuration=FOLDER/step"),
    of_programs=write,
    takes=("strategy",),
)
