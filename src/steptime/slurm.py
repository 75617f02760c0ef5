"""Slurm as its users have it: sbatch, squeue, scontrol and scancel, and what they say."""

import os
import re
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from shutil import which

from steptime.errors import SteptimeError, UsageError

_ANSWER_S = 60.0
"""How long a command of Slurm's may take, which waits for a controller that is busy."""

_OF_JOB = re.compile(r"SLURM_(?!CONF|CLUSTERS)")
"""Variables of a job within which this runs; one that is sent from there would take them over."""

_UNKNOWN = "Invalid job id"
_OVER = (
    *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY"),
    *("PREEMPTED", "REVOKED", "TIMEOUT"),
)


_FIELD = re.compile(r"(\S+?)=(.*?)(?=\s+[\w/:]+=|\s*$)")
"""A field of what scontrol shows of a job on one line; a path may have blanks."""


class SilentError(SteptimeError):
    """The controller of Slurm does not answer now; it may, later."""


@dataclass(frozen=True, kw_only=True)
class Status:
    """How a job stands."""

    state: str
    """As Slurm calls it: PENDING, RUNNING, COMPLETED and so on."""

    reason: str = "None"
    """Why it waits, in Slurm's word."""

    nodes: str = ""
    exit_code: int = 0
    signal: int = 0
    """The number of the signal that ended it, 0 where none did."""

    restarts: int = 0
    """How often it was requeued."""

    start: str = "Unknown"
    """When it started, or when Slurm expects it to."""

    output: Path | None = None
    """The file of what it prints."""

    @property
    def over(self) -> bool:
        """Whether nothing more will come of it."""
        return self.state in _OVER


def send(script: Path) -> int:
    """Give a script to sbatch; the number of the job.

    Raises UsageError where there is no Slurm, and with sbatch's words where it refuses the job.
    """
    if which("sbatch") is None:
        raise UsageError(
            "there is no sbatch here: run this on a host that sends jobs to Slurm, or print the "
            "script with --dry-run"
        )
    done = _run("sbatch", "--parsable", str(script))
    number = re.match(r"\d+", done.stdout.strip().rpartition("\n")[2])
    if done.returncode or number is None:
        raise UsageError(f"Slurm takes no such job: {_words(done)}")
    return int(number[0])


def look(job: int | str) -> Status:
    """How a job stands; one of an array is called 12_3.

    Raises SilentError where nobody answers, and SteptimeError where Slurm no longer knows the job.
    """
    if which("scontrol") is None:
        raise UsageError("there is no Slurm here: run this on a host that sends jobs to it")
    done = _run("scontrol", "show", "job", "--oneliner", str(job))
    if done.returncode == 0:
        return _status(dict(_FIELD.findall(done.stdout)))
    if _UNKNOWN not in done.stderr:
        raise SilentError(f"Slurm does not answer: {_words(done)}")
    found = _accounted(job)
    if found is None:
        raise SteptimeError(
            f"Slurm does not know job {job}, or no longer: what it printed lies in its folder"
        )
    return found


def queued(jobs: Iterable[str]) -> set[str]:
    """Those of the arrays ``jobs`` that are not over: each called 12_3, as the third of array 12.

    Raises SilentError where nobody answers.
    """
    names = ",".join(jobs)
    done = _run("squeue", "--noheader", "--array", "--format=%i", f"--jobs={names}")
    if done.returncode and _UNKNOWN not in done.stderr:
        raise SilentError(f"Slurm does not answer: {_words(done)}")
    return set(done.stdout.split())


def cancel(jobs: Iterable[str]) -> None:
    """End jobs, whether they wait or run; those that are over stay as they are."""
    if names := list(jobs):
        _run("scancel", *names)


def _status(fields: Mapping[str, str]) -> Status:
    code, _, number = fields.get("ExitCode", "0:0").partition(":")
    output = fields.get("StdOut")
    return Status(
        state=fields.get("JobState", "UNKNOWN"),
        reason=fields.get("Reason", "None").partition(",")[0],  # nodes may follow
        nodes=fields.get("NodeList", "").replace("(null)", ""),
        exit_code=int(code),
        signal=int(number or 0),
        restarts=int(fields.get("Restarts", "0")),
        start=fields.get("StartTime", "Unknown"),
        output=Path(output) if output else None,
    )


def _accounted(job: int | str) -> Status | None:
    """What the accounting has of a job, where there is one: the controller soon forgets."""
    if which("sacct") is None:
        return None
    asked = ("State", "ExitCode", "NodeList")
    done = _run("sacct", "-j", str(job), "-X", "-n", "-P", "-o", ",".join(asked))
    if done.returncode or not done.stdout.strip():
        return None
    state, code, nodes = done.stdout.strip().splitlines()[-1].split("|")
    return _status({"JobState": state.split()[0], "ExitCode": code, "NodeList": nodes})


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            env={name: value for name, value in os.environ.items() if not _OF_JOB.match(name)},
            timeout=_ANSWER_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SilentError(f"Slurm does not answer: {command[0]} took {_ANSWER_S:g} s") from None
    except OSError as error:
        raise SteptimeError(f"cannot run {command[0]}: {error.strerror}") from None


def _words(done: subprocess.CompletedProcess[str]) -> str:
    """What a command of Slurm's said on stderr, as one sentence: the sum of it first."""
    lines = [re.sub(r"^\w+: (error|fatal): ", "", line) for line in done.stderr.splitlines()]
    said = list(dict.fromkeys(line.strip().rstrip(".") for line in lines if line.strip()))
    if not said:
        return f"it ended with exit code {done.returncode} and said nothing"
    *details, last = said
    last = last.removeprefix("Batch job submission failed: ")
    return f"{last} ({'; '.join(details)})" if details else last
