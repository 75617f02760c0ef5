"""The command line: one file a verb, which parses, calls and prints."""

import signal
import sys
from io import TextIOWrapper
from typing import get_args

from cyclopts import App, CoercionError, CycloptsError, Parameter

from steptime import __version__
from steptime.cli.printing import tell_error
from steptime.errors import SteptimeError, UsageError
from steptime.units import Size

_VERBS = {
    "compare": "Which gradient-sync strategy is fastest here, and where does the step go?",
    "train": "Train GPT-2 under one gradient-sync strategy.",
    "bench": "How fast are collectives and links here, with which algorithm?",
    "tune": "Which algorithm is the fastest for which size here?",
    "verify": "Is this collective algorithm right for every number of ranks?",
    "show": "What does it look like, step by step?",
    "topo": "What is this machine?",
    "cluster": "What is that cluster?",
    "simulate": "How long would it take there?",
    "proxy": "How would this model's traffic run here?",
    "scale": "How well does a step scale, and what holds it back?",
    "report": "Show me.",
    "diff": "Did the step time change?",
    "history": "How did a figure change over revisions?",
    "export": "Give this run to my tools.",
}


def build_app() -> App:
    """The command line; a verb's module is imported only when that verb is called."""
    app = App(
        name="steptime",
        help="Where the time of a distributed training step goes.",
        version=__version__,
        default_parameter=Parameter(negative=()),
        result_action="return_value",
    )
    for verb, question in _VERBS.items():
        app.command(f"steptime.cli.{verb}:{verb}", name=verb, help=question)
    app.register_install_completion_command(
        help="Let bash, zsh or fish complete verbs and options, from its next start on."
    )
    return app


def main() -> int:
    """Run one command; the exit code is 0 when all is well, 1 when it failed, 2 for bad usage."""
    words = sys.argv[1:]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # better ? for × than no answer
    try:
        result = _call(words)
    except SteptimeError as error:
        verb = words[0] if words and words[0] in _VERBS else ""
        tell_error(error, verb, as_json="--json" in words)
        return error.exit_code
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    return result if isinstance(result, int) else 0


def _call(words: list[str]) -> object:
    try:
        return build_app()(words, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        raise UsageError(_sentence(error)) from None


def _sentence(error: CycloptsError) -> str:
    """What ``error`` says, in one sentence; where an option may be None, what Size says of it."""
    if isinstance(error, CoercionError) and error.token and Size in get_args(error.target_type):
        try:
            Size(error.token.value)
        except UsageError as refusal:
            return str(refusal)
    return " ".join(str(error).split()).partition(" Available commands:")[0].rstrip(".")
