"""``record``: Where does the time of my script go?"""

import os
import signal
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from steptime.cli.options import Flat, OutputOptions
from steptime.cli.printing import json_alone, say, say_json, writing
from steptime.cli.ranks import check_torch
from steptime.errors import UsageError, shell_status
from steptime.launch.process import stops
from steptime.limits import MOST_RANKS, MOST_RANKS_HERE, check_within
from steptime.runs import run_folder

if TYPE_CHECKING:
    from steptime.api.results import Run

_FLAGS = ("--dry", "--json", "--quiet", "--no-color", "--help", "-h")


def record(
    script: Annotated[Path, Parameter(name="SCRIPT")],
    /,
    *arguments: Annotated[str, Parameter(name="ARGUMENTS", allow_leading_hyphen=True)],
    ranks: int | None = None,
    profile: str | None = None,
    dry: bool = False,
    show: str | None = None,
    output: Flat[OutputOptions] = OutputOptions(),
) -> int:
    """Where does the time of my script go?

    Runs a script as it is, and tells where its steps went: every call of torch.distributed, by
    place in the script. Start it alone, with --ranks, or under a launcher, as
    torchrun --nproc-per-node 4 -m steptime record train.py.

    Parameters
    ----------
    script
        The Python script, which is run, not read alone.
    arguments
        Its own arguments: all that follows it.
    ranks
        Start it as so many ranks of this host, by torchrun.
    profile
        Steps that torch.profiler sees too: 3:5 adds the operators of steps 3 and 4.
    dry
        Communicate nothing: record what ranks of a job of --ranks would do, one after the other.
    show
        With --dry, the ranks to record: 0,1,1023; default: 0.

    """
    if profile is not None:
        check_torch("record", "gloo")
        from steptime.record.profile import ProfiledSteps

        ProfiledSteps.parse(profile)
    if dry:
        return _dry_run([str(script), *arguments], ranks, show, profile, output)
    if show is not None:
        raise UsageError("--show names the ranks of a dry run: give --dry, or leave it out")
    if ranks is not None:
        check_within("--ranks", ranks, 1, MOST_RANKS_HERE)
        check_torch("record", "gloo")
    if not script.is_file():
        raise UsageError(f"there is no script {script}: give the path of a Python file")
    return _live_run([str(script), *arguments], ranks, profile, output)


def _live_run(
    command: list[str], ranks: int | None, profile: str | None, output: OutputOptions
) -> int:
    """Run the script as what a launcher made us, or start its ranks."""
    from steptime.record.start import recording_environment
    from steptime.world import detect
    from steptime.world.rendezvous import contract

    command = [sys.executable, *command]
    world = detect(os.environ)
    if world is not None:
        if ranks is not None and ranks != world.size:
            raise UsageError(f"--ranks is {ranks} in a world of {world.size}: leave it out")
        out = run_folder.create(output.out or run_folder.launcher_path("record"))
        environ = recording_environment({**os.environ, **contract(world)}, out, profile)
        os.execve(sys.executable, command, environ)  # noqa: S606  (no shell is wanted)
    if ranks is not None:
        one = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        command = [*one, "--nproc-per-node", str(ranks), *command[1:]]
    path = output.out or run_folder.default_path("record", datetime.now())
    with run_folder.created(path) as out:
        environ = recording_environment(os.environ, out, profile)
        if ranks is not None and ranks > 1:
            environ.setdefault("OMP_NUM_THREADS", "1")  # torchrun does too, and tells at length
        with json_alone(output.json):
            code = _run(command, environ)
        _answer(out, output, code)
    return code


def _dry_run(
    command: list[str],
    ranks: int | None,
    show: str | None,
    profile: str | None,
    output: OutputOptions,
) -> int:
    """Run the script once for each rank to be shown, with nobody at the other end."""
    from steptime.record.start import DRY_VARIABLE, recording_environment

    check_torch("record", "gloo")
    if ranks is None:
        raise UsageError("--dry needs the size of the job: give --ranks, as in --ranks 1024")
    check_within("--ranks", ranks, 1, MOST_RANKS)
    shown = _shown(show or "0", ranks)
    if not Path(command[0]).is_file():
        raise UsageError(f"there is no script {command[0]}: give the path of a Python file")
    path = output.out or run_folder.default_path("record", datetime.now())
    code = 0
    with run_folder.created(path) as out:
        environ = recording_environment(os.environ, out, profile)
        for rank in shown:
            place = {"RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_RANK": "0"}
            alone = {"LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}
            one = {**environ, **place, **alone, DRY_VARIABLE: "1"}
            with json_alone(output.json):
                code = _run([sys.executable, *command], one) or code
        _answer(out, output, code)
    if not output.json:
        say(
            f"\nA dry run of ranks {', '.join(map(str, shown))} of {ranks}: calls, bytes and their "
            "order are those of the real job unless the script acts on what it receives; "
            "communication took no time, and received values are meaningless."
        )
    return code


def _shown(text: str, ranks: int) -> list[int]:
    """The ranks of ``--show``, each once. Raises UsageError for what is no rank of the job."""
    words = text.split(",")
    if not all(word.strip().isdecimal() and int(word) < ranks for word in words):
        raise UsageError(
            f"--show is {text!r}: give ranks from 0 to {ranks - 1}, with commas between"
        )
    return sorted({int(word) for word in words})


def with_script_apart(words: list[str]) -> list[str]:
    """The words of a command line, with -- before the script, whose options are its own.

    A folder is no script, and what follows it are options of the verb.
    """
    at = 1
    while at < len(words) and words[at].startswith("-") and words[at] != "--":
        at += 1 if words[at] in _FLAGS or "=" in words[at] else 2
    if at >= len(words) or words[at] == "--" or Path(words[at]).is_dir():
        return words
    return [*words[:at], "--", *words[at:]]


def _run(command: list[str], environ: dict[str, str]) -> int:
    """Run a command to its end, and give it the signals that we get; its exit code."""
    started: list[subprocess.Popen[bytes]] = []
    early: list[int] = []  # what came before there was anybody to give it to

    def pass_on(number: int, _: FrameType | None) -> None:
        if started:
            started[0].send_signal(number)
        else:
            early.append(number)

    before = {number: signal.signal(number, pass_on) for number in stops()}
    try:
        started.append(subprocess.Popen(command, env=environ))
        for number in early:
            started[0].send_signal(number)
        code = started[0].wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return shell_status(code)


def _answer(out: Path, output: OutputOptions, code: int) -> None:
    from steptime.api.results import REPORT, recorded_run
    from steptime.runs.record import to_json

    try:
        run: Run = recorded_run(out)
    except UsageError:
        if code:  # the script failed before it did anything, and has said why
            return
        raise
    with writing(out):
        run.write(out)
    if output.json:
        say_json(to_json(run.record))
    else:
        say(f"{output.rendered(run.print)}\n\nreport: {out / REPORT}")
