"""``on``: What does a command say on another host of the emulated cluster?"""

import os
from typing import Annotated

from cyclopts import Parameter

from steptime.errors import UsageError


def on(
    host: Annotated[str, Parameter(name="HOST")],
    /,
    *command: Annotated[str, Parameter(name="COMMAND", allow_leading_hyphen=True)],
) -> None:
    """What does a command say on another host of the emulated cluster?

    Runs it there, as ssh would; for the shell that steptime emulate CLUSTER opens.

    Parameters
    ----------
    host
        The host, as host1.
    command
        What to run there, after --; default: a shell.

    """
    from steptime.emulate.remote import become

    words = list(command) or [os.environ.get("SHELL", "/bin/sh")]
    if words[0] == "":
        raise UsageError("the command is empty: end with -- COMMAND")
    become(host, words, os.environ)
