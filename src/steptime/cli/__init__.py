"""The command line: one file a verb, which parses, calls and prints."""

import json
import os
import sys

from cyclopts import App, CycloptsError, Parameter

from steptime import __version__
from steptime.errors import SteptimeError, UsageError

_VERBS = {
    "compare": "Which gradient-sync strategy is fastest here, and where does the step go?",
    "train": "Train GPT-2 under one gradient-sync strategy.",
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
    return app


def main() -> int:
    """Run one command; the exit code is 0 when all is well, 1 when it failed, 2 for bad usage."""
    words = sys.argv[1:]
    try:
        result = _call(words)
    except SteptimeError as error:
        _tell(error, as_json="--json" in words)
        return error.exit_code
    except BrokenPipeError:
        # Whoever read our output has left, as `| head` does; nothing more can be said to them.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return result if isinstance(result, int) else 0


def _call(words: list[str]) -> object:
    try:
        return build_app()(words, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        sentence = " ".join(str(error).split()).rstrip(".")
        raise UsageError(f"{sentence}; see steptime --help") from None


def _tell(error: SteptimeError, *, as_json: bool) -> None:
    print(f"steptime: {error}", file=sys.stderr)
    if as_json:
        print(json.dumps({"error": str(error)}))
