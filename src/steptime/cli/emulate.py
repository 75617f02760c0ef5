"""``emulate``: What if my hosts had these links?"""

import sys
from typing import Annotated

from cyclopts import Parameter

from steptime.cli.options import Flat, PrintOptions
from steptime.emulate.options import EmulateOptions
from steptime.errors import UsageError
from steptime.files import json_text


def emulate(
    cluster: Annotated[str, Parameter(name="CLUSTER|FILE.toml")],
    /,
    *command: Annotated[str, Parameter(name="COMMAND", allow_leading_hyphen=True)],
    options: Flat[EmulateOptions] = EmulateOptions(),
    json: bool = False,
    quiet: bool = False,
    no_color: bool = False,
) -> int:
    """What if my hosts had these links?

    Runs a command on hosts that this machine emulates: each is a set of namespaces with a name,
    an address and a /dev/shm of its own, and its link is shaped to the cluster's rates, both ways.
    Without a command: a shell on host 0, where steptime on host1 -- COMMAND reaches the others, as
    ssh does. Needs no root where users may make namespaces. When it ends, all is gone.

    Parameters
    ----------
    cluster
        A cluster that steptime ships, or the file of one; office-10gbe:hosts=4 for fewer hosts.
    command
        What to run, after --: a verb, torchrun, mpirun, a script.
    json
        Print one JSON object as the last line on stderr; stdout is the command's.
    quiet
        Print nothing beside what the command prints.
    no_color
        Print without colour, as NO_COLOR does.

    """
    from steptime.api.emulating import emulate as run

    if not command and not sys.stdin.isatty():
        raise UsageError(
            "no command is given, and this is no terminal for a shell: end with -- COMMAND"
        )
    output = PrintOptions(json=json, quiet=quiet, no_color=no_color)
    console = output.console(stderr=True)

    def tell(sentence: str) -> None:
        if not (quiet or json):
            console.print(sentence)

    found = run(
        cluster,
        *command,
        ranks=options.ranks,
        start=options.start,
        time_dilation=options.time_dilation,
        congestion_control=options.congestion_control,
        rails=options.rails,
        faults=options.faults,
        tell=tell,
    )
    for sentence in found.sentences:
        tell(sentence)
    if json:
        console.file.write(f"{json_text(found.record)}\n")
    return found.status
