"""The watch: it looks at a job's processes from outside, and judges when ranks stand still."""

import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from steptime.check.calls import SETUP
from steptime.check.ends import Ended, ends_in
from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import judged
from steptime.check.locks import lock_waits
from steptime.check.observed import facts_of
from steptime.check.processes import STILL_S, Process, processes_in
from steptime.check.pulse import Pulse
from steptime.check.standing import lost_contact
from steptime.errors import UsageError
from steptime.record.read import ProcessLog, helpers_in, read_log
from steptime.record.start import FOLDER

_GRACE_S = 1.5
"""So long after a rank has failed the others may fail of the same."""

_LOST_GRACE_S = 4.0
"""The same where ranks only lost others, on several hosts: by then it is known which answer."""

_GIVEN_UP_AFTER_S = 30.0
"""A host that has not answered for so long is waited for no more: connections live through less."""

_NOTED_WITHIN_S = 10.0
"""So long after a process is gone who started it may take to note how it ended."""

_ANSWERS_S = 0.1
"""A process that is asked for its stacks and runs answers sooner."""

_ANSWERS_ANEW_S = 1.0
"""Who has answered before is waited for, be the machine busy: it decides what is told."""

_JUST_NOW_S = 4.0
_COST = 4.0
"""Between two judgements passes so many times what one of them took."""


class Watch:
    """Looks at the job that records itself into a run's folder.

    ``tell`` is given each straggler when it becomes one, and each host that is lost.
    ``supervised``: whether ``supervise`` started every rank, here or beside, and so notes how each
    ends. ``pulse``: that of a job on several hosts.
    """

    def __init__(
        self,
        folder: Path,
        tell: Callable[[Finding], None],
        *,
        supervised: bool,
        pulse: Pulse | None = None,
    ) -> None:
        self._supervised = supervised
        self._pulse = pulse
        self._folder = folder / FOLDER
        self._begun_ns = time.time_ns()
        self._tell = tell
        self._processes: dict[Path, Process] = {}
        self._ranks: Mapping[int, int] = {}
        self._next = 0.0
        self._gone: set[str] = set()
        self._told: dict[tuple[object, ...], tuple[Finding, float]] = {}

    def told(self, *, still: bool) -> list[Finding]:
        """What was told of ranks and hosts; ``still``: also what was so until just now."""
        since = time.monotonic() - _JUST_NOW_S
        return [one for one, when in self._told.values() if still or when < since]

    @property
    def lives(self) -> bool:
        """Whether a process of the job on this host lives, or how it ended is yet to be known."""
        if any(one.here and one.lives for one in self._processes.values()):
            return True
        job, ended = self.job(), self._ended()
        if self._unnoted(job, ended, time.monotonic()):
            return True
        failures = _failures(job, ended)
        return bool(failures) and job.since_s(min(failures)) < self._grace_s(job)

    def look(self, ranks: Mapping[int, int]) -> list[Finding]:
        """What is certain to be wrong by now. ``ranks``: of the processes started here."""
        now = time.monotonic()
        self._ranks = ranks
        self._processes = self._fresh(processes_in(self._folder, _host(), self._processes))
        for one in self._processes.values():
            one.look(now)
        still = [one for one in self._processes.values() if self._is_still(one, now)]
        ended = self._ended()
        if not (still or any(one.code for one in ended.values())) or now < self._next:
            return []
        _ask(still, now)
        job = self.job()
        found = judged(job, running=True)
        after = time.monotonic()
        self._next = after + max(STILL_S / 2, _COST * (after - now))
        pids = {one.pid for one in still if one.may_answer}
        unanswered = {log.rank for log in job.logs if log.pid in pids}
        for finding in found:
            late = finding.kind is FindingKind.STRAGGLER and unanswered.isdisjoint(finding.ranks)
            if late or (finding.kind is FindingKind.LOST and self.tells(job)):
                self._tell_once(finding)
        certain = [one for one in found if self._is_certain(one, job, ended, after)]
        if not certain or not _ask_anew(still, now):
            return certain
        job, anew = self.job(), time.monotonic()
        found = judged(job, running=True)
        return [one for one in found if self._is_certain(one, job, ended, anew)]

    def job(self) -> Job:
        """The job as its processes have written it down until now."""
        by_rank: dict[int, tuple[ProcessLog, Process]] = {}
        logs, joining = self._logs()
        helpers = helpers_in([log for log, _ in logs])
        for log, one in logs:
            before = by_rank.get(log.rank)
            if log not in helpers and (before is None or before[0].wall_ns <= log.wall_ns):
                by_rank[log.rank] = (log, one)
        for log, one in joining:
            by_rank.setdefault(log.rank, (log, one))
        codes = {
            one.rank: one.code
            for file, one in self._ended().items()
            # A script that starts its ranks itself is none.
            if self._supervised or one.rank not in by_rank or _is_of(file, by_rank[one.rank][0])
        }
        first = next((log.host for log, _ in by_rank.values() if log.rank == 0), "")
        dead = {rank: None for rank, (_, one) in by_rank.items() if not one.lives}
        stacks = {rank: one.answer() for rank, (_, one) in by_rank.items() if one.here}
        pids = {one.pid: rank for rank, (_, one) in by_rank.items() if one.here and one.lives}
        return Job(
            logs=[by_rank[rank][0] for rank in sorted(by_rank)],
            now_ns=time.time_ns(),
            exit_codes=dead | codes,
            stacks=stacks,
            idle=frozenset(rank for rank, (_, one) in by_rank.items() if one.idle),
            resting=frozenset(rank for rank, (_, one) in by_rank.items() if one.rests),
            unmoved=frozenset(rank for rank, (_, one) in by_rank.items() if one.unmoved),
            lost=self._pulse.lost(first) if self._pulse else (),
            helpers=helpers,
            lock_waits=lock_waits(pids, stacks),
        )

    def _logs(self) -> tuple[list[tuple[ProcessLog, Process]], list[tuple[ProcessLog, Process]]]:
        """Of the processes that are ranks by who started them, or that have called anything.

        And those that join no group yet, as the ranks that a launcher has made them.
        """
        found, joining = [], []
        for one in self._processes.values():
            with suppress(UsageError):
                log = read_log(one.file)
                if one.pid in self._ranks and one.here:
                    found.append((replace(log, rank=self._ranks[one.pid]), one))
                elif log.groups:
                    found.append((log, one))
                elif (rank := _launched_as(log)) is not None:
                    joining.append((replace(log, rank=rank), one))
        return found, joining

    def tells(self, job: Job) -> bool:
        """Whether it is for this host to tell of a job: of hosts that are lost one alone tells."""
        self._gone |= {one.host for one in job.lost}
        left = [log.host for log in job.logs if log.host not in self._gone]
        return not self._gone or left[:1] == [_host()]

    @property
    def has_others(self) -> bool:
        """Whether other hosts have watches of the same job."""
        return self._pulse is not None

    def _fresh(self, processes: Mapping[Path, Process]) -> dict[Path, Process]:
        """Without those of a job that ran into the same folder before."""
        return {
            file: one
            for file, one in processes.items()
            if file in self._processes or _written_since(file, self._begun_ns)
        }

    def _ended(self) -> dict[Path, Ended]:
        return {
            file: ended
            for file, ended in ends_in(self._folder).items()
            if ended.wall_ns >= self._begun_ns
        }

    def _is_still(self, one: Process, now: float) -> bool:
        return one.lives and now - one.still_since >= STILL_S

    def _is_certain(
        self, finding: Finding, job: Job, ended: Mapping[Path, Ended], now: float
    ) -> bool:
        """Whether a finding will stay: whoever it is about has not moved while it was judged."""
        if finding.kind is FindingKind.STRAGGLER:
            return False
        if finding.kind is FindingKind.LOST:
            return (finding.since_s or 0.0) >= _GIVEN_UP_AFTER_S
        if finding.kind is FindingKind.DIED:
            first = min(_failures(job, ended), default=job.now_ns)
            return job.since_s(first) >= self._grace_s(job)
        young = (finding.since_s or 0.0) < _GRACE_S
        if finding.kind is FindingKind.MISMATCH and young and _may_be_joined(job):
            return False
        if finding.kind is FindingKind.MISSING and (
            _leaving(job, finding.ranks)
            or self._unnoted(job, ended, now).intersection(finding.ranks)
        ):
            return False
        about = {place.rank for place in finding.places} | set(finding.ranks)
        files = {log.rank: log.pid for log in job.logs}
        moved = []
        for one in self._processes.values():
            if one.pid in {files.get(rank) for rank in about} and one.lives:
                one.look(now)
                moved.append(one.still_since >= now)
        return not any(moved)

    def _unnoted(self, job: Job, ended: Mapping[Path, Ended], now: float) -> set[int]:
        """Ranks that have just gone, and nobody has noted yet whether they failed."""
        if not self._supervised:
            return set()
        noted = {one.rank for one in ended.values()}
        just_gone = {
            one.pid
            for one in self._processes.values()
            if one.gone_since and now - one.gone_since < _NOTED_WITHIN_S
        }
        return {log.rank for log in job.logs if log.pid in just_gone and log.rank not in noted}

    def _grace_s(self, job: Job) -> float:
        """How long after the first rank that failed its cause may become known."""
        failed = [one for one in job.standings.values() if one.failed]
        lost = self._pulse and all(lost_contact(one.raised) for one in failed)
        return _LOST_GRACE_S if lost else _GRACE_S

    def _tell_once(self, finding: Finding) -> None:
        key = (finding.kind, tuple(finding.ranks), *finding.places[-1:])  # the call that waits
        if key not in self._told:
            self._tell(finding)
        self._told[key] = finding, time.monotonic()


def _launched_as(log: ProcessLog) -> int | None:
    """The rank that a launcher has given a process which begins to set up groups; None: no rank."""
    ranks = [facts.get("launched_as", -1) for facts in facts_of(log, SETUP)]
    return ranks[-1] if ranks and ranks[-1] >= 0 else None


def finished_job(run: Path) -> Job:
    """The job that a run's folder holds; UsageError where it holds none."""
    from steptime.record.read import read_logs

    logs: Sequence[ProcessLog] = read_logs(run)
    codes = {one.rank: one.code for one in ends_in(run / FOLDER).values()}
    ends = [log.by_wall(log.last) for log in logs]
    return Job(logs=logs, now_ns=max(ends), exit_codes=codes)


def _ask(processes: Sequence[Process], now: float) -> None:
    """Ask processes for their stacks, and wait a moment for those that are asked the first time."""
    for one in processes:
        one.ask(now)
    _await([one for one in processes if one.asked_since == now], now + _ANSWERS_S)


def _ask_anew(processes: Sequence[Process], since: float) -> bool:
    """Ask those who answered before ``since`` once more; False where there are none.

    A rank that sleeps first and waits for the lock of a file next writes down neither.
    """
    stale = [one for one in processes if one.answers and one.asked_since < since]
    for one in stale:
        one.ask_anew(time.monotonic())
    _await(stale, time.monotonic() + _ANSWERS_ANEW_S)
    return bool(stale)


def _await(asked: Sequence[Process], until: float) -> None:
    while time.monotonic() < until and not all(one.answers for one in asked):
        time.sleep(_ANSWERS_S / 20)


def _may_be_joined(job: Job) -> bool:
    """Whether a rank may yet come to the call that others do not make alike.

    Who is odd may change by that. The others may have failed before it comes, and it may still be
    setting up its groups, which it has not written down then.
    """
    parts = job.difference.parts if job.difference is not None else {}
    members = {rank for part in parts.values() for rank in part.members}
    absent = [job.standings.get(rank) for rank in members - set(parts)]
    return any(one is None or not (one.ended or one.raised) for one in absent)


def _leaving(job: Job, ranks: Sequence[int]) -> bool:
    """Whether one of the ranks has only just begun to leave: its exit code will tell how."""
    return any(
        log.rank in ranks
        and log.rank not in job.exit_codes
        and job.since_s(log.by_wall(log.ended_ns or 0)) < _GRACE_S
        for log in job.logs
    )


def _failures(job: Job, ended: Mapping[Path, Ended]) -> list[int]:
    """When ranks raised or ended badly, by the wall clock."""
    raised = [log.by_wall(log.raised.at_ns) for log in job.logs if log.raised is not None]
    return raised + [one.wall_ns for one in ended.values() if one.code]


def _is_of(file: Path, log: ProcessLog) -> bool:
    return file.stem == f"{log.host}-{log.pid}"


def _written_since(file: Path, begun_ns: int) -> bool:
    with suppress(OSError):
        return file.stat().st_mtime_ns >= begun_ns - int(1e9)
    return False


def _host() -> str:
    return socket.gethostname()
