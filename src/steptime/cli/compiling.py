"""Telling why the first simulation on a machine takes long: its code is compiled, once."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.progress import Progress, TextColumn

from steptime.cli.options import PrintOptions


@contextmanager
def told_of_compiling(output: PrintOptions) -> Iterator[None]:
    """While numba compiles, say so on stderr, with the seconds so far; a person's terminal only."""
    console = output.console(stderr=True)
    if output.quiet or not console.is_terminal:
        yield
        return
    from numba.core.event import Listener, install_listener

    text = TextColumn("compiling the simulator, once on this machine: {task.elapsed:.0f} s")
    progress = Progress(text, console=console, transient=True)
    task = progress.add_task("", start=False, visible=False)
    under_way = 0

    class Teller(Listener):
        """Shows the task while anything compiles: functions compile what they call."""

        def on_start(self, event: Any) -> None:  # noqa: ARG002
            nonlocal under_way
            under_way += 1
            if not progress.tasks[0].started:
                progress.start_task(task)
            progress.update(task, visible=True, refresh=under_way == 1)

        def on_end(self, event: Any) -> None:  # noqa: ARG002
            nonlocal under_way
            under_way -= 1
            progress.update(task, visible=under_way > 0)

    with progress, install_listener("numba:compile", Teller()):
        yield
