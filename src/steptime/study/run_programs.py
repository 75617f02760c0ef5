"""The programs that a run's folder holds: kept there, or made of what a recorded job wrote."""

from pathlib import Path

from steptime.errors import UsageError
from steptime.program import Compute
from steptime.program.stored import PROGRAMS, StoredProgram, read_programs
from steptime.record.program import RecordedProgram, recorded_program
from steptime.record.read import read_logs
from steptime.record.start import FOLDER
from steptime.runs.run_folder import RECORD
from steptime.study.recorded import script_name


def is_run(workload: str) -> bool:
    """Whether a workload is the folder of a run."""
    return (Path(workload) / RECORD).is_file() or (Path(workload) / FOLDER).is_dir()


def programs_of(run: Path) -> list[StoredProgram]:
    """The programs of a run's folder, that of a recorded job made of what its ranks wrote.

    Raises UsageError where it has none, and says why.
    """
    found = read_programs(run)
    if not found and (run / FOLDER).is_dir():
        return [stored_step(recorded_step(run))]
    if not found:
        raise UsageError(
            f"{run} has no {PROGRAMS}, for its verb leaves none or it is too large: name a run of "
            "train, compare, simulate, proxy or record"
        )
    return found


def recorded_step(run: Path) -> RecordedProgram:
    """The step of a recorded job, from its folder; raises UsageError as ``recorded_program``."""
    logs = read_logs(run)
    return recorded_program(logs, script_name(logs[0].command))


def stored_step(step: RecordedProgram) -> StoredProgram:
    """A recorded step as a folder keeps it."""
    lists = step.program.lists
    return StoredProgram(
        program=step.program,
        seconds=tuple(
            tuple(op.seconds or 0.0 if isinstance(op, Compute) else 0.0 for op in ops)
            for ops in lists
        ),
    )
