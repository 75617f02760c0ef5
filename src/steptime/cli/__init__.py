"""The command line: one file a verb, which parses, calls and prints."""

import errno
import re
import signal
import sys
from io import StringIO, TextIOWrapper
from traceback import walk_tb
from typing import get_args

from cyclopts import App, CoercionError, CycloptsError, Parameter
from rich.console import Console

from steptime.cli.printing import mistake, say, tell_error
from steptime.discovery import first_lines
from steptime.errors import SteptimeError, UsageError
from steptime.units import Size
from steptime.version import __version__

_VERB = re.compile(r"``(\w+)``: (.+)")
"""How the first line of a verb's file begins: the verb, and the question that it answers."""


def verbs() -> dict[str, str]:
    """The question of each verb: of every file here whose first line says so; none is imported."""
    lines = first_lines(__path__).items()
    found = {module: _VERB.fullmatch(line) for module, line in lines}
    return {verb[1]: verb[2] for module, verb in found.items() if verb and verb[1] == module}


def build_app() -> App:
    """The command line; a verb's module is imported only when that verb is called."""
    app = App(
        name="steptime",
        help="Where the time of a distributed training step goes.",
        version=__version__,
        default_parameter=Parameter(negative=()),
        result_action="return_value",
    )
    for verb, question in verbs().items():
        app.command(f"steptime.cli.{verb}:{verb}", name=verb, help=question)
    app.register_install_completion_command(
        help="Let bash, zsh or fish complete verbs and options, from its next start on."
    )
    return app


def main() -> int:
    """Run one command; the exit code is 0 when all is well, 1 when it failed, 2 for bad usage.

    And that of a process which a signal ended: 130 for Ctrl-C, 141 where nobody reads stdout.
    """
    words = sys.argv[1:]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # better ? for × than no answer
    try:
        result = _call(words)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except Exception as problem:
        error = told_error(problem)
        verb = words[0] if words and words[0] in verbs() else ""
        ours = words[: words.index("--")] if "--" in words else words
        tell_error(error, verb, as_json="--json" in ours)
        return error.exit_code
    return result if isinstance(result, int) else 0


def told_error(problem: Exception) -> SteptimeError:
    """What is said of it: one of ours as it is, a name that no file can have, else our mistake."""
    if isinstance(problem, SteptimeError):
        return problem
    if isinstance(problem, OSError) and problem.errno == errno.ENAMETOOLONG:
        return UsageError(f"{str(problem.filename)[:40]!r}… is longer than a file's name can be")
    if isinstance(problem, AssertionError) and _is_of_parser(problem):
        return UsageError("a value is a list or an object where one word is meant")
    return mistake(problem)


def _is_of_parser(problem: Exception) -> bool:
    """Whether the parser of the command line raised it: it takes ``[]`` for an empty list."""
    *_, (frame, _) = walk_tb(problem.__traceback__)
    return str(frame.f_globals.get("__name__")).startswith("cyclopts.")


def _call(words: list[str]) -> object:
    """Call the verb that ``words`` name; help and version are said here, since print may fail."""
    told = StringIO()
    console = Console(file=told, force_terminal=sys.stdout.isatty() or None)
    try:
        app = build_app()
        result: object = app(
            with_script_apart(words), console=console, exit_on_error=False, print_error=False
        )
    except CycloptsError as error:
        raise UsageError(refusal(error)) from None
    if told.getvalue():
        say(told.getvalue().rstrip("\n"))
    return result


def with_script_apart(words: list[str]) -> list[str]:
    """The words of a command line, with -- before the script of a verb that runs one."""
    if words[:1] not in (["record"], ["check"]):
        return words
    from steptime.cli.record import with_script_apart as apart

    return apart(words)


def refusal(error: CycloptsError) -> str:
    """What ``error`` says, in one sentence; where an option may be None, what Size says of it."""
    if isinstance(error, CoercionError) and error.token and Size in get_args(error.target_type):
        try:
            Size(error.token.value)
        except UsageError as refusal:
            return str(refusal)
    return " ".join(str(error).split()).partition(" Available commands:")[0].rstrip(".")
