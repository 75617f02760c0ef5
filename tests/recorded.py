"""``steptime record`` of a script, and what is then known of its calls."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cli.command import Ended
from forked import forked
from ranks import BROKEN_OFF, TRIES
from steptime.program import Collective, Op, Recv, Send
from steptime.record.operations import OPERATIONS
from steptime.record.read import ProcessLog

HANGS_AFTER_S = 540.0


def record(
    folder: Path,
    script: str,
    *arguments: str,
    words: Sequence[str] | None = None,
    environ: Mapping[str, str] | None = None,
    start: Callable[..., Ended] = forked,
) -> Ended:
    """``steptime record`` of a script, by default on 2 ranks; the run is in ``folder / "run"``.

    Where gloo breaks off connecting, as it may on a busy machine, the script is run again.
    """
    file = folder / "script.py"
    file.write_text(script)
    options = ["--ranks", "2"] if words is None else words
    command = ["record", *options, "--out", str(folder / "run"), str(file), *arguments]
    for _ in range(TRIES - 1):
        ended = start(*command, folder=folder, environ=environ)
        if BROKEN_OFF not in ended.err:
            return ended
        shutil.rmtree(folder / "run", ignore_errors=True)
    return start(*command, folder=folder, environ=environ)


def calls_of(log: ProcessLog) -> list[tuple[str, int]]:
    """Its calls in order: their kinds and bytes."""
    return [(OPERATIONS[call["operation"]].kind, int(call["bytes"])) for call in log.calls]


def program_calls(ops: Sequence[Op]) -> list[tuple[str, int]]:
    """The calls among the ops of a rank: their kinds and bytes."""
    kinds = {Send: "send", Recv: "recv"}
    return [
        (op.kind if isinstance(op, Collective) else kinds[type(op)], op.nbytes)
        for op in ops
        if isinstance(op, Collective | Send | Recv)
    ]
