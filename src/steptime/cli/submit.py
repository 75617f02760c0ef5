"""``submit``: How does this run as a job of a cluster's scheduler?"""

import shlex
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from steptime.cli.options import Flat, OutputOptions
from steptime.cli.printing import say, say_json
from steptime.cli.verb_words import read_verb
from steptime.errors import UsageError
from steptime.runs import run_folder
from steptime.submit.options import SubmitOptions

if TYPE_CHECKING:
    from steptime.api.submitting import Submission


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
    from steptime.api.submitting import Submission, submit_of

    if follow is not None:
        if words or dry_run or detach:
            raise UsageError(f"--follow {follow} follows a job that is there: leave the rest out")
        return _followed(Submission(script="", number=follow), output)
    found = submit_of(
        words,
        asked,
        output.out or run_folder.default_path("submit", datetime.now()),
        dry_run=dry_run,
        made_by=shlex.join(["steptime", *sys.argv[1:]]).replace("\n", " "),
        read=read_verb,
    )
    if not (dry_run or detach):
        _tell(f"job {found.number} is sent: {found.record()['script']}", output)
        return _followed(found, output)
    if output.json:
        say_json(found.record())
    elif dry_run:
        say(found.script, end="")
    else:
        say(output.rendered(found.print))
    return 0


def _followed(sent: "Submission", output: OutputOptions) -> int:
    """Follow a job to its end, and say how that was."""
    job = sent.number

    def show(text: str) -> None:
        if output.json:
            print(text, end="", file=sys.stderr, flush=True)
        elif text:
            say(text, end="")

    try:
        status = sent.follow(lambda sentence: _tell(sentence, output), show)
    except KeyboardInterrupt:
        print(
            f"\njob {job} goes on: steptime submit --follow {job} follows it again, scancel {job} "
            "ends it",
            file=sys.stderr,
        )
        raise
    record = sent.record(status)
    run = record.get("run")
    if output.json:
        say_json(record)
    elif run is not None and not Path(run).exists():
        _tell(f"the run lies where the job ran, and cannot be seen from here: {run}", output)
    else:
        _tell(f"job {job} is done" + (f"; its run: {run}" if run else ""), output)
    return 0


def _tell(sentence: str, output: OutputOptions) -> None:
    if not output.quiet:
        print(f"steptime: {sentence}", file=sys.stderr, flush=True)
