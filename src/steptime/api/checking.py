"""``steptime.check``: what is wrong with a job, while it runs or afterwards."""

import os
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from steptime.api.cells import html_of, text_of
from steptime.check.finding import Finding, FindingKind
from steptime.errors import UsageError
from steptime.limits import MOST_RANKS_HERE, check_within
from steptime.record.start import FOLDER, OBSERVERS_VARIABLE, recording_environment
from steptime.runs import run_folder
from steptime.runs.checked import CheckRecord, FoundFault, check_json
from steptime.runs.codec import decoded
from steptime.runs.environment import here

if TYPE_CHECKING:
    from rich.console import Console

    from steptime.check.job import Job
    from steptime.check.supervise import Outcome
    from steptime.world import World

COUNTS = tuple(
    kind
    for kind in FindingKind
    if kind not in (FindingKind.SLOW, FindingKind.STRAGGLER, FindingKind.DATA)
)
"""The kinds of findings that make a check fail where nothing else is said."""
_SILENT = (FindingKind.RACE, FindingKind.DRIFT, FindingKind.DATA)
"""What is told of a job that stands still, besides why."""


@dataclass(frozen=True, eq=False, repr=False)
class Checked:
    """What was found in a job.

    ``remarks``: what was seen besides, and may be meant. ``record`` is what its run.json holds.
    ``told``: this process is the one of its job that tells it; of a launcher's ranks the first is.
    """

    findings: Sequence[Finding]
    record: CheckRecord
    told: bool = True
    remarks: Sequence[Finding] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing was found that counts."""
        return self.record.ok

    @property
    def exit_code(self) -> int:
        """That of the verb: 1 where something was found that counts, else the script's own."""
        script = self.record.exit_code
        return 1 if not self.ok or (script is None and self.record.ended_by_check) else script or 0

    def save(self, folder: str | Path) -> Path:
        """Leave its run.json and its page, report.html, in a folder."""
        from steptime.report.check_page import write_check

        out = run_folder.create(Path(folder))
        content = check_json(self.record)
        run_folder.write_record(out, content)
        write_check(out / "report.html", content)
        return out

    def print(self, console: "Console") -> None:
        """Print a paragraph for each finding, and for each remark."""
        from steptime.report.findings import print_findings, print_remarks

        print_findings(console, [asdict(one) for one in self.findings], self.record.exit_code)
        print_remarks(console, [asdict(one) for one in self.remarks])

    def __repr__(self) -> str:
        return text_of(self.print)

    def _repr_html_(self) -> str:
        return html_of(self.print)


def check(
    target: str | Path,
    *arguments: str,
    ranks: int | None = None,
    out: str | Path | None = None,
    fail_on: Sequence[str] | None = None,
    tell: Callable[[Finding], None] | None = None,
) -> Checked:
    """What is wrong with a job: why it hangs, who differs, who is missing, late or dead.

    ``target``: a Python script, which is run with its arguments and watched, as so many ``ranks``
    of this host, or as it is; or the folder of a recorded run, which is judged as it ended, or of
    programs or Chakra traces, which are judged without running.
    ``out``: the folder of the run; default: runs/check-TIME. ``fail_on``: the kinds of findings
    that count; default: all but slow and straggler, and data, which is a remark unless it is named.
    ``tell`` is given each rank that others wait for, when it becomes late, and each host that
    answers no more. A job that stands still for certain is ended.

    Raises UsageError where there is no such script or run.

    >>> run = st.simulate("gpt2-124M", "dgx-h100-pod", ranks=8, strategy="sharded")
    >>> st.check(run.save("runs/eight")).ok
    True
    """
    from steptime.world import detect

    path, counts = Path(target), _kinds(fail_on)
    if path.is_dir():
        return _of_run(path, counts) if (path / FOLDER).is_dir() else _of_program(path, counts)
    if not path.is_file():
        raise UsageError(f"there is no script or run {path}: give the path of one")
    if ranks is not None:
        check_within("--ranks", ranks, 1, MOST_RANKS_HERE)
    world = detect(os.environ)
    if world is not None and ranks is not None and ranks != world.size:
        raise UsageError(f"--ranks is {ranks} in a world of {world.size}: leave it out")
    command = [sys.executable, str(path), *arguments]
    folder = Path(out) if out else _default(world)
    made = run_folder.create(folder)
    return _of_script(command, made, world, ranks, counts, tell or (lambda _: None))


def _kinds(fail_on: Sequence[str] | None) -> list[FindingKind]:
    if fail_on is None:
        return list(COUNTS)
    known = [kind.value for kind in FindingKind]
    for name in fail_on:
        if name not in known:
            raise UsageError(f"there is no finding {name!r}: choose from {', '.join(known)}")
    return [FindingKind(name) for name in fail_on]


def _default(world: "World | None") -> Path:
    """The folder of a run."""
    if world is not None:
        return run_folder.launcher_path("check")
    return run_folder.default_path("check", datetime.now())


def _of_run(run: Path, counts: Sequence[FindingKind]) -> Checked:
    from steptime.check.judging import judged
    from steptime.check.watch import finished_job

    job = finished_job(run)
    return _checked(run, judged(job), counts, job.logs[0].command, len(job.logs))


def _of_program(folder: Path, counts: Sequence[FindingKind]) -> Checked:
    from steptime.check.program import program_findings, programs_in

    programs = programs_in(folder)
    if not programs:
        raise UsageError(
            f"{folder} holds neither a recorded run nor a program: give a folder that record, "
            "simulate or export left"
        )
    findings = [finding for program in programs for finding in program_findings(program)]
    return _checked(folder, findings, counts, (), programs[0].ranks)


def _of_script(
    command: Sequence[str],
    out: Path,
    world: "World | None",
    ranks: int | None,
    counts: Sequence[FindingKind],
    tell: Callable[[Finding], None],
) -> Checked:
    from steptime.check.judging import judged
    from steptime.check.pulse import Pulse
    from steptime.check.supervise import supervise
    from steptime.check.watch import Watch
    from steptime.world.rendezvous import contract

    given = os.environ if world is None else {**os.environ, **contract(world)}
    environ = recording_environment(given, out) | {OBSERVERS_VARIABLE: "steptime.check.observe"}
    (out / FOLDER).mkdir(exist_ok=True)
    watches = world is None or world.local_rank == 0
    supervised = world is not None or ranks is not None
    with ExitStack() as stack:
        pulse = None
        if watches and world is not None and not world.one_host:
            pulse = stack.enter_context(Pulse(out / FOLDER, world.address))
        watch = Watch(out, tell, supervised=supervised, pulse=pulse) if watches else None
        environs = stack.enter_context(_world_here(environ, world, ranks))
        outcome = supervise(command, environs, out, watch)
        job = watch.job() if watch else None
    by_another = outcome.by_check and not outcome.findings
    if watch is None or job is None or by_another or not watch.tells(job):
        return replace(_checked(out, [], counts, command, None, outcome), told=False)
    findings = judged(job)
    if outcome.by_check:
        silent = [one for one in findings if one.kind in _SILENT]
        findings = [*outcome.findings, *silent]
    # Who seemed late until the end is told as what it turned out to be.
    lost = {rank for one in findings if one.kind is FindingKind.LOST for rank in one.ranks}
    known = {(one.kind, tuple(one.ranks)) for one in findings}
    late = [
        one
        for one in watch.told(still=not outcome.by_check)
        if not lost.issuperset(one.ranks) and (one.kind, tuple(one.ranks)) not in known
    ]
    findings = [*findings, *late]
    checked = _checked(out, findings, counts, command, world.size if world else ranks, outcome)
    return replace(checked, record=replace(checked.record, stacks=_stacks(job)))


def _stacks(job: "Job") -> dict[str, list[str]]:
    """Where in the script each rank was that was asked for its stack, the innermost call first."""
    from steptime.check.stacks import main_frames

    frames = {rank: main_frames(text) for rank, text in job.stacks.items()}
    return {
        str(rank): [f"{one.file}:{one.line} in {one.function}" for one in of_it]
        for rank, of_it in frames.items()
        if of_it
    }


@contextmanager
def _world_here(
    environ: dict[str, str], world: "World | None", ranks: int | None
) -> Iterator[dict[int, dict[str, str]]]:
    """The environment of each rank that is to be started here.

    While the block lasts nobody else is given the port of their rendezvous: a socket is bound to
    it, which does not listen.
    """
    from steptime.launch.process import world_environment

    if world is not None or ranks is None:
        yield {world.rank if world else 0: environ}
        return
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        threads = environ.get("OMP_NUM_THREADS", "")
        shared = world_environment(
            environ, ranks, int(threads) if threads.isdecimal() else 1, held.getsockname()[1]
        )
        each = ({"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(ranks))
        yield {rank: shared | own for rank, own in enumerate(each)}


def _checked(
    run: Path,
    findings: Sequence[Finding],
    counts: Sequence[FindingKind],
    command: Sequence[str],
    ranks: int | None,
    outcome: "Outcome | None" = None,
) -> Checked:
    """What was found, and apart from it what is but a remark."""
    remarks = [one for one in findings if one.remark and one.kind not in counts]
    found = [one for one in findings if one not in remarks]
    record = CheckRecord(
        run=str(run),
        ok=not any(one.kind in counts for one in found),
        findings=[_fault(one) for one in found],
        remarks=[_fault(one) for one in remarks],
        fail_on=[kind.value for kind in counts],
        command=list(command),
        ranks=ranks,
        exit_code=outcome.code if outcome else None,
        ended_by_check=outcome.by_check if outcome else False,
        environment=here(),
    )
    return Checked(found, record, remarks=remarks)


def _fault(finding: Finding) -> FoundFault:
    facts = asdict(finding)
    del facts["remark"]  # where it stands says so
    return decoded(facts, FoundFault)
