"""How a job stands and how it ended, in sentences."""

import signal
from contextlib import suppress

from steptime.errors import SteptimeError
from steptime.slurm import Status
from steptime.submit.script import STOPPED

EXPECTED = "; expected to start at "
_REASONS = {
    "None": "Slurm has not looked at it yet",
    "Priority": "others come first",
    "Resources": "for free nodes",
    "BeginTime": "Slurm lets a job that was requeued wait, two minutes as a rule",
    "Dependency": "for another job",
    "JobHeldUser": "it is held: scontrol release lets it go",
    "JobHeldAdmin": "an administrator holds it",
    "PartitionDown": "its partition is down",
    "PartitionInactive": "its partition takes no jobs now",
    "PartitionTimeLimit": "it asks for more time than its partition gives: it will not start",
    "PartitionConfig": "it asks for what its partition does not have: it will not start",
    "PartitionNodeLimit": "it asks for more nodes than its partition gives: it will not start",
    "ReqNodeNotAvail": "for nodes that are down or reserved",
    "Reservation": "for its reservation",
    "Licenses": "for licenses",
}
"""What users ask about; other words of Slurm's stand as they are."""

_MOST_SIGNALS = 64  # Slurm has numbers of its own above
_NO_OUTPUT = 53
"""What Slurm says of a job whose file of output it cannot open, in place of a signal."""

_MEND = {
    "TIMEOUT": "was ended as its time was over: ask for more --time, or let a training go on with "
    "--checkpoint-every, --resume auto and --requeue",
    "OUT_OF_MEMORY": "was ended for want of memory: ask for more with --sbatch --mem=…, or share "
    "the model among more ranks",
    "NODE_FAIL": "lost a node of {nodes}: send it again; with --requeue it starts by itself",
    "BOOT_FAIL": "got a node that did not start, of {nodes}: send it again",
    "PREEMPTED": "had to make room for another job: send it again; with --requeue it starts by "
    "itself",
    "CANCELLED": "was cancelled",
    "DEADLINE": "did not end before its deadline: ask for a later one, or for less --time",
    "REVOKED": "runs on another cluster of the federation",
}


class JobError(SteptimeError):
    """A job that did not end well; the exit code is the job's."""

    def __init__(self, text: str, exit_code: int) -> None:
        super().__init__(text)
        self.exit_code = exit_code


def standing(job: int, status: Status) -> str:
    """Where a job is that is not over."""
    times = "once" if status.restarts == 1 else f"{status.restarts} times"
    again = f", requeued {times}," if status.restarts else ""
    if status.state == "RUNNING":
        return f"job {job}{again} runs on {status.nodes}"
    if status.state == "PENDING":
        word = _REASONS.get(status.reason, "")
        reason = f"{status.reason}: {word}" if word else status.reason
        when = "" if status.start == "Unknown" else f"{EXPECTED}{status.start}"
        return f"job {job}{again} waits ({reason}){when}"
    if status.state == "COMPLETING":
        return f"job {job} is being ended"
    return f"job {job}{again} is {status.state.lower().replace('_', ' ')}"


def failure(job: int, status: Status) -> JobError | None:
    """Why a job that is over did not end well; None where it did."""
    if status.state == "COMPLETED":
        return None
    return JobError(f"job {job} {_what(status)}", _exit_code(status))


def _what(status: Status) -> str:
    if status.state in _MEND:
        return _MEND[status.state].format(nodes=status.nodes)
    if status.exit_code == STOPPED:
        return (
            "was stopped by SIGTERM, as before the end of its time; a training with "
            "--checkpoint-every, --resume auto and --requeue goes on by itself"
        )
    if status.exit_code > 128:
        return f"failed: a rank was killed by {_named(status.exit_code - 128)}"
    if status.exit_code:
        return f"failed: its command ended with exit code {status.exit_code}"
    if status.signal == _NO_OUTPUT:
        return (
            f"did not start: {status.nodes} cannot write {status.output}, name a folder that all "
            "nodes see with --out"
        )
    if status.signal:
        return f"failed: its script was killed by {_named(status.signal)}"
    return f"ended as {status.state}"


def _exit_code(status: Status) -> int:
    if status.exit_code:
        return min(status.exit_code, 255)
    if status.signal == _NO_OUTPUT or not 0 < status.signal <= _MOST_SIGNALS:
        return 1
    return 128 + status.signal


def _named(number: int) -> str:
    with suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"
