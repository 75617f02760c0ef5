"""Which pages are made of a run.json alone, by the verb that left it."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from steptime.report.bench_page import write_bench
from steptime.report.check_page import write_check
from steptime.report.diff_page import write_diff

PAGES: Mapping[str, Callable[[Path, Mapping[str, Any]], None]] = MappingProxyType(
    {"bench": write_bench, "tune": write_bench, "diff": write_diff, "check": write_check}
)
"""What writes the page of a verb's run.json to a path: atomically, and it needs no network."""
