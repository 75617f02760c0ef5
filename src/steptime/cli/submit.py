"""``submit``: How does this run as a job of a cluster's scheduler?"""

import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from inspect import BoundArguments
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import CycloptsError, Parameter

from steptime.cli.options import Flat, OutputOptions, RankOptions
from steptime.cli.printing import say, say_json
from steptime.errors import UsageError
from steptime.files import write_atomic
from steptime.nearest import did_you_mean
from steptime.runs import run_folder
from steptime.submit.options import SubmitOptions

if TYPE_CHECKING:
    from steptime.submit.script import Job

_RUN = "run"
"""Where in the job's folder the run of a verb lies."""

_LAUNCHERS = ("mpirun", "mpiexec", "srun")
"""Programs whose own ranks would take the variables of the job's for theirs."""

_OF_SCRIPTS = ("record", "check")
"""Verbs whose ranks are those of a script."""

_OF_MANY = (*_OF_SCRIPTS, "scale")
"""Verbs that many ranks may call, and that say so by no option of all such verbs."""


def submit(
    *words: Annotated[str, Parameter(name="COMMAND")],
    asked: Flat[SubmitOptions] = SubmitOptions(),
    dry_run: bool = False,
    detach: bool = False,
    follow: int | None = None,
    output: Flat[OutputOptions] = OutputOptions(),
) -> int:
    """How does this run as a job of a cluster's scheduler?

    Writes a batch script that a person can read, gives it to sbatch, and follows the job: its place
    in the queue, what it prints, and its end, whose exit code this is. Ctrl-C leaves the job alone.

    Parameters
    ----------
    words
        Behind --, what each rank runs: a verb, as -- train gpt2-124M --steps 500, or a command, as
        -- python train.py.
    dry_run
        Print the script, whose files will lie where it is sent from, and send nothing.
    detach
        Return as soon as the job is sent.
    follow
        Follow the job of this number, sent before.

    """
    if follow is not None:
        if words or dry_run or detach:
            raise UsageError(f"--follow {follow} follows a job that is there: leave the rest out")
        return _followed(follow, {}, output)
    if not words:
        raise UsageError("submit what? Write -- and a verb or a command: submit -- train gpt2-nano")
    folder = output.out or run_folder.default_path("submit", datetime.now())
    job = _job(list(words), asked, None if dry_run else folder)
    from steptime.submit.script import batch_script

    text = batch_script(job, asked)
    if dry_run:
        if output.json:
            say_json({"verb": "submit", "job": None, "script": text})
        else:
            say(text, end="")
        return 0
    return _sent(text, folder, output, detach=detach)


def _job(words: list[str], asked: SubmitOptions, folder: Path | None) -> "Job":
    """What is to run; ``folder`` is the job's, None where it has none."""
    from steptime.cli import verbs
    from steptime.submit.script import Job

    requeue = asked.requeue
    if words[0] in verbs():
        arguments = _parsed(words).arguments
        _check_ranks(words[0], arguments, asked)
        out = _of_type(arguments, OutputOptions)
        if out is not None and out.out is None and folder is not None:
            words[1:1] = ["--out", str(folder / _RUN)]
        if requeue is None:
            requeue = _goes_on(arguments)
        name = words[0]
        command = [sys.executable, "-m", "steptime", *words]
    else:
        _check_command(words)
        name = Path(next((word for word in words if word.endswith(".py")), words[0])).name
        command = words
    return Job(
        name=asked.name or "steptime-" + re.sub(r"[^\w.+-]", "_", name),
        command=tuple(command),
        cwd=Path.cwd(),
        output=f"{folder or Path()}/job-".replace("%", "%%") + "%j.out",
        made_by=shlex.join(["steptime", *sys.argv[1:]]).replace("\n", " "),
        requeue=bool(requeue),
    )


def _parsed(words: list[str]) -> BoundArguments:
    """The arguments of a verb, which is refused here rather than after hours in a queue."""
    from steptime.cli import build_app, refusal, with_script_apart

    if words[0] == "submit":
        raise UsageError("a job of submit would only submit: leave the second submit out")
    try:
        command, bound, _ = build_app().parse_args(
            with_script_apart(words), exit_on_error=False, print_error=False
        )
    except CycloptsError as error:
        raise UsageError(f"{words[0]}: {refusal(error)}") from None
    if not getattr(command, "__module__", "").startswith("steptime.cli."):
        raise UsageError(f"that only prints the help: see steptime {words[0]} --help here")
    bound.apply_defaults()
    return bound


def _check_ranks(verb: str, arguments: Mapping[str, Any], asked: SubmitOptions) -> None:
    """Raise UsageError where the job would have other ranks than its verb."""
    options = _of_type(arguments, RankOptions)
    ranks = options.ranks if options else arguments.get("ranks") if verb in _OF_SCRIPTS else None
    if isinstance(ranks, int) and ranks != asked.ranks:
        raise UsageError(
            f"--ranks {ranks} disagrees with --nodes {asked.nodes} of --ranks-per-node "
            f"{asked.ranks_here}: leave --ranks out, the job has those"
        )
    if asked.ranks > 1 and options is None and verb not in _OF_MANY:
        raise UsageError(
            f"each of {asked.ranks} ranks would do the same {verb}: leave out --nodes and "
            "--ranks-per-node"
        )


def _of_type(arguments: Mapping[str, Any], kind: type[Any]) -> Any:
    """The options of a type among the arguments of a verb, or within one of them."""
    for value in arguments.values():
        within = [getattr(value, one.name) for one in fields(value)] if is_dataclass(value) else []
        for one in (value, *within):
            if isinstance(one, kind):
                return one
    return None


def _goes_on(arguments: Mapping[str, Any]) -> bool:
    """Whether a verb loses nothing when it is ended and started again."""
    from steptime.train.options import RunOptions

    run = _of_type(arguments, RunOptions)
    return run is not None and run.checkpoint_every is not None and run.resume == "auto"


def _check_command(words: list[str]) -> None:
    from steptime.cli import verbs

    if Path(words[0]).name in _LAUNCHERS:
        raise UsageError(
            f"srun starts the ranks of the job, and each would be {words[0]}: leave that out, and "
            "give --nodes and --ranks-per-node"
        )
    if which(words[0]) is None:
        hint = did_you_mean(words[0], verbs())
        raise UsageError(
            f"there is no verb and no program {words[0]!r}"
            + (f", {hint}" if hint else ": write a verb, or a command that runs here")
        )


def _sent(text: str, folder: Path, output: OutputOptions, *, detach: bool) -> int:
    """Write the script, send it and, unless told to ``detach``, follow the job."""
    from steptime.slurm import send

    with run_folder.created(folder):
        script = folder / "job.sh"
        write_atomic(script, text.encode(errors="surrogateescape"))
        try:
            job = send(script)
        except BaseException:
            script.unlink()
            raise
    about = {
        "script": str(script),
        "output": str(folder / f"job-{job}.out"),
        "run": str(folder / _RUN) if f"--out {shlex.quote(str(folder / _RUN))}" in text else None,
    }
    if detach:
        if output.json:
            say_json({"verb": "submit", "job": job, "state": "PENDING", **about})
        else:
            say(f"job {job} is sent: {script}")
            say(f"steptime submit --follow {job} follows it, scancel {job} ends it")
        return 0
    _tell(f"job {job} is sent: {script}", output)
    return _followed(job, about, output)


def _followed(job: int, about: Mapping[str, Any], output: OutputOptions) -> int:
    from steptime.submit.follow import follow
    from steptime.submit.words import failure

    def show(text: str) -> None:
        if output.json:
            print(text, end="", file=sys.stderr, flush=True)
        elif text:
            say(text, end="")

    try:
        path = Path(about["output"]) if "output" in about else None
        status = follow(job, lambda sentence: _tell(sentence, output), show, path=path)
    except KeyboardInterrupt:
        print(
            f"\njob {job} goes on: steptime submit --follow {job} follows it again, scancel {job} "
            "ends it",
            file=sys.stderr,
        )
        raise
    error = failure(job, status)
    if error is not None:
        raise error
    run = about.get("run")
    if output.json:
        ended = {"state": status.state, "exit_code": 0, "restarts": status.restarts}
        say_json({"verb": "submit", "job": job, **ended, "nodes": status.nodes, **about})
    elif run is not None and not Path(run).exists():
        _tell(f"the run lies where the job ran, and cannot be seen from here: {run}", output)
    else:
        _tell(f"job {job} is done" + (f"; its run: {run}" if run else ""), output)
    return 0


def _tell(sentence: str, output: OutputOptions) -> None:
    if not output.quiet:
        print(f"steptime: {sentence}", file=sys.stderr, flush=True)
