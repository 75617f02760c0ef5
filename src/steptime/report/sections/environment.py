"""How to make the run again: its command, and all else that the figures depend on."""

import shlex
from collections.abc import Mapping
from typing import Any

from steptime.report.section import Page, Section
from steptime.runs.codec import plain
from steptime.runs.environment import Environment


def _shown(page: Page) -> Mapping[str, Any]:
    return {
        "environment": _lines(page.record.environment),
        "commands": [(one.name, shlex.join(one.record.environment.command)) for one in page.runs],
    }


def _lines(environment: Environment) -> list[tuple[str, str]]:
    """Label and value of everything but the command, which stands apart."""
    flat: list[tuple[str, str]] = []
    for name, value in plain(environment).items():
        if name == "command":
            continue
        entries = value.items() if isinstance(value, Mapping) else [(name, value)]
        flat += [(str(key).replace("_", " "), str(item)) for key, item in entries if item]
    return flat


SECTION = Section("environment", 150, _shown)
