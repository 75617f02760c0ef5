"""``steptime.submit``: a verb or a command as a job of a cluster's scheduler."""

import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack

from steptime.api.cells import html_of, text_of
from steptime.errors import UsageError, error_of
from steptime.files import parsed_json, write_atomic
from steptime.runs import run_folder
from steptime.slurm import Status, cancel, look, send
from steptime.submit.follow import follow
from steptime.submit.options import JobOptions, SubmitOptions
from steptime.submit.script import Job, batch_script
from steptime.submit.verb import Verb, check_ranks
from steptime.submit.words import failure

if TYPE_CHECKING:
    from rich.console import Console

    from steptime.api.results import Run

Read: TypeAlias = Callable[[Sequence[str]], Verb | None]
"""What the words of a command say of a verb; None where they are a program's."""

_RUN = "run"
"""Where in the job's folder the run of a verb lies."""

_LAUNCHERS = ("mpirun", "mpiexec", "srun")
"""Programs whose own ranks would take the variables of the job's for theirs."""


def unheard(text: str) -> None:
    """Nobody hears what becomes of a job."""


@dataclass(frozen=True, eq=False, repr=False)
class Submission:
    """A job that was sent to the scheduler, or would be.

    ``script`` is what sbatch takes. ``number``: the job's, None where nothing was sent; ``folder``:
    where its script lies and what it prints; ``left``: the folder of the run that its verb leaves.
    ``follow`` raises SteptimeError, with the job's exit code, where the job does not end well.
    """

    script: str
    number: int | None = None
    folder: Path | None = None
    left: Path | None = None

    def status(self) -> Status:
        """How the job stands; SteptimeError where Slurm does not answer or know it any longer."""
        return look(self._sent())

    def follow(
        self, tell: Callable[[str], None] = unheard, show: Callable[[str], None] = unheard
    ) -> Status:
        """Wait for the job's end; ``tell`` hears sentences about it, ``show`` what it prints."""
        number = self._sent()
        path = self._output if self.folder else None
        status = follow(number, tell, show, path=path)
        error = failure(number, status)
        if error is not None:
            raise error
        return status

    def run(self) -> "Run":
        """The run that its verb left; UsageError where there is none, or it cannot be seen here."""
        from steptime.api.results import load

        if self.left is None:
            raise UsageError("the job is of no verb that leaves a run, or was not sent")
        return load(self.left)

    def cancel(self) -> None:
        """End the job, whether it waits or runs; one that is over stays as it is."""
        cancel([str(self._sent())])

    def record(self, status: Status | None = None) -> dict[str, Any]:
        """What ``--json`` says of it; with the ``status`` that it ended with, of its end."""
        if self.number is None:
            return {"verb": "submit", "job": None, "script": self.script}
        stands: dict[str, Any] = {"state": "PENDING"}
        if status is not None:
            stands = {
                "state": status.state,
                "exit_code": status.exit_code,
                "restarts": status.restarts,
                "nodes": status.nodes,
            }
        return {"verb": "submit", "job": self.number, **stands, **self._files()}

    def _files(self) -> dict[str, str | None]:
        """What its folder holds; nothing of a job that was sent before."""
        if self.folder is None:
            return {}
        run = self.folder / _RUN
        return {
            "script": str(self.folder / "job.sh"),
            "output": str(self._output),
            "run": str(run) if run == self.left else None,
        }

    @property
    def _output(self) -> Path:
        return (self.folder or Path()) / f"job-{self.number}.out"

    def _sent(self) -> int:
        if self.number is None:
            raise UsageError("the job was not sent: leave dry_run out")
        return self.number

    def print(self, console: "Console") -> None:
        """Print where the job's script is and what follows it; the script if it was not sent."""
        from rich.text import Text

        told = self.script.rstrip("\n")
        if self.number is not None:
            script = f": {self.folder / 'job.sh'}" if self.folder else ""
            told = (
                f"job {self.number} is sent{script}\n"
                f"steptime submit --follow {self.number} follows it, scancel {self.number} ends it"
            )
        console.print(Text(told), soft_wrap=True)

    def __repr__(self) -> str:
        return text_of(self.print)

    def _repr_html_(self) -> str:
        return html_of(self.print)


def submit(
    *command: str,
    out: str | Path | None = None,
    dry_run: bool = False,
    **asked: Unpack[JobOptions],
) -> Submission:
    """Send a command to Slurm, as a job whose ranks each run it, and return once it is sent.

    ``command``: a verb of steptime with its words, as ``"train", "gpt2-124M", "--steps", "500"``,
    or a program with its arguments. ``asked``: what Slurm is asked for, by the options of the
    command line: ``nodes``; ``ranks_per_node``, by default one for each GPU or 1;
    ``gpus_per_node``; ``cpus_per_rank``; ``time`` that it may take, as ``"12h"``, and ``notice``,
    how long before its end the ranks get SIGTERM; ``partition``; ``account``; ``name``; ``setup``,
    commands for the shell before the ranks start; ``requeue``, whether it may wait again and go on;
    ``sbatch``, more options for that. ``out``: the folder of the job, for its script, what it
    prints and the run of a verb; default: runs/submit-TIME. ``dry_run``: send nothing.

    Raises UsageError where the verb would refuse its words, there is no such program or no Slurm,
    or Slurm takes no such job.

    >>> job = st.submit("train", "gpt2-124M", "--steps", "500", nodes=2, time="12h", dry_run=True)
    >>> job.number, "#SBATCH --time=0-12:00:00" in job.script
    (None, True)
    """
    return submit_of(
        command,
        SubmitOptions(**asked),
        Path(out) if out else run_folder.default_path("submit", datetime.now()),
        dry_run=dry_run,
        made_by="steptime.submit, from Python",
        read=ask,
    )


def submit_of(
    command: Sequence[str],
    asked: SubmitOptions,
    folder: Path,
    *,
    dry_run: bool,
    made_by: str,
    read: Read,
) -> Submission:
    """The submission of options that were checked, to a ``folder``; raises as ``submit``.

    ``made_by``: the command that the script names as its maker.
    """
    if not command:
        raise UsageError("submit what? Write -- and a verb or a command: submit -- train gpt2-nano")
    if Path(command[0]).name in _LAUNCHERS:
        raise UsageError(
            f"srun starts the ranks of the job, and each would be {command[0]}: leave that out, "
            "and give --nodes and --ranks-per-node"
        )
    verb = read(command)
    words, left = list(command), None
    if verb is not None:
        check_ranks(verb, asked)
        if verb.leaves_run and not dry_run:
            left = Path(verb.out) if verb.out else folder / _RUN
            words[1:1] = [] if verb.out else ["--out", str(left)]
        words = [sys.executable, "-m", "steptime", *words]
    requeue = asked.requeue
    if requeue is None:
        requeue = verb is not None and verb.goes_on
    job = Job(
        name=asked.name or "steptime-" + re.sub(r"[^\w.+-]", "_", _title(command, verb)),
        command=tuple(words),
        cwd=Path.cwd(),
        output=f"{Path() if dry_run else folder}/job-".replace("%", "%%") + "%j.out",
        made_by=made_by,
        requeue=requeue,
    )
    script = batch_script(job, asked)
    if dry_run:
        return Submission(script)
    return Submission(script, _number(script, folder), folder, left)


def _title(command: Sequence[str], verb: Verb | None) -> str:
    """What the queue calls it: the verb, the script of an interpreter, or the program."""
    if verb is not None:
        return verb.name
    return Path(next((word for word in command if word.endswith(".py")), command[0])).name


def _number(text: str, folder: Path) -> int:
    """Write the script to the folder of the job and send it; the job's number."""
    with run_folder.created(folder):
        script = folder / "job.sh"
        write_atomic(script, text.encode(errors="surrogateescape"))
        try:
            return send(script)
        except BaseException:
            script.unlink()
            raise


def ask(words: Sequence[str]) -> Verb | None:
    """What the command line says of the words of a command, asked as a program of its own.

    For nothing here knows the options of a verb, and the job will start the same program.
    """
    done = subprocess.run(
        [sys.executable, "-m", "steptime.cli.verb_words", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        lines = done.stderr.splitlines() or [f"python -m steptime ended with {done.returncode}"]
        raise error_of(lines[-1], done.returncode)
    told = parsed_json(done.stdout, dict)["verb"]
    return None if told is None else Verb(**told)
