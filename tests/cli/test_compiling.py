"""The first simulation on a machine compiles: a person at a terminal is told, and nobody else."""

import re
from io import StringIO

import pytest
from numba.core.event import trigger_event
from rich.console import Console

from steptime.cli.compiling import told_of_compiling
from steptime.cli.options import PrintOptions


@pytest.mark.parametrize(("terminal", "quiet"), [(True, False), (True, True), (False, False)])
def test_a_person_is_told_while_code_is_compiled(
    monkeypatch: pytest.MonkeyPatch, terminal: bool, quiet: bool
) -> None:
    written = StringIO()
    console = Console(file=written, force_terminal=terminal, width=80)
    monkeypatch.setattr(PrintOptions, "console", lambda self, stderr: console)  # noqa: ARG005
    with told_of_compiling(PrintOptions(quiet=quiet)):
        assert "compiling" not in written.getvalue()
        with trigger_event("numba:compile"), trigger_event("numba:compile"):
            pass
    told = re.search(r"compiling the simulator, once on this machine: \d+ s", written.getvalue())
    assert bool(told) == (terminal and not quiet)
