"""The words of a verb, read long before a job runs them, by the parser that will read them there.

``python -m steptime.cli.verb_words WORDS`` prints what they say, for a program that is no command
line itself.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from inspect import BoundArguments
from shutil import which
from typing import Any

from cyclopts import CycloptsError

from steptime.cli import build_app, refusal, told_error, verbs, with_script_apart
from steptime.cli.options import OutputOptions, RankOptions
from steptime.cli.printing import say_json
from steptime.errors import UsageError
from steptime.nearest import did_you_mean
from steptime.submit.verb import Verb

_OF_SCRIPTS = ("record", "check")
"""Verbs whose ranks are those of a script."""

_OF_MANY = (*_OF_SCRIPTS, "scale")
"""Verbs that many ranks may call, and that say so by no option of all such verbs."""


def read_verb(words: Sequence[str]) -> Verb | None:
    """What the words say of a verb; None where they begin with a program.

    Raises UsageError where the verb refuses them, or the first is neither.
    """
    name = words[0]
    if name not in verbs():
        _check_program(name)
        return None
    arguments = _parsed(words).arguments
    options = _of_type(arguments, RankOptions)
    output = _of_type(arguments, OutputOptions)
    ranks = options.ranks if options else arguments.get("ranks") if name in _OF_SCRIPTS else None
    return Verb(
        name=name,
        ranks=ranks if isinstance(ranks, int) else None,
        shared=options is not None or name in _OF_MANY,
        leaves_run=output is not None,
        out=str(output.out) if output is not None and output.out is not None else None,
        goes_on=_goes_on(arguments),
    )


def _check_program(name: str) -> None:
    if which(name) is None:
        hint = did_you_mean(name, verbs())
        raise UsageError(
            f"there is no verb and no program {name!r}"
            + (f", {hint}" if hint else ": write a verb, or a command that runs here")
        )


def _parsed(words: Sequence[str]) -> BoundArguments:
    """The arguments of a verb, which is refused here rather than after hours in a queue."""
    if words[0] == "submit":
        raise UsageError("a job of submit would only submit: leave the second submit out")
    try:
        command, bound, _ = build_app().parse_args(
            with_script_apart(list(words)), exit_on_error=False, print_error=False
        )
    except CycloptsError as error:
        raise UsageError(f"{words[0]}: {refusal(error)}") from None
    if not getattr(command, "__module__", "").startswith("steptime.cli."):
        raise UsageError(f"that only prints the help: see steptime {words[0]} --help here")
    bound.apply_defaults()
    return bound


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


def main() -> int:
    """Print the verb that the words of this process are, or on stderr why they are none."""
    try:
        verb = read_verb(sys.argv[1:])
    except Exception as problem:
        error = told_error(problem)
        print(error, file=sys.stderr)
        return error.exit_code
    say_json({"verb": asdict(verb) if verb else None})
    return 0


if __name__ == "__main__":
    sys.exit(main())
