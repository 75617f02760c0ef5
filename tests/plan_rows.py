"""Files of measured rows for tests."""

import csv
from functools import cache
from pathlib import Path

from steptime.plan.rows import COLUMNS, Row, read_rows
from steptime.plan.validate import Validation, validate

PLAIN = {
    "source": "somebody's table",
    "model": "Llama-style 1.34B",
    "hidden": "2048",
    "layers": "16",
    "heads": "32",
    "kv_heads": "32",
    "ffn": "8192",
    "seq": "4096",
    "vocab": "131072",
    "gpu": "H100-SXM5-80GB",
    "n_gpus": "8",
    "tp": "2",
    "pp": "1",
    "dp": "4",
    "cp": "1",
    "ep": "1",
    "micro_batch": "2",
    "global_batch": "256",
    "precision": "bf16",
    "recompute": "none",
    "zero_fsdp": "ZeRO-1",
    "step_s": "8.0",
}
"""A row that can be predicted; columns that are not there are empty."""


@cache
def shipped() -> Validation:
    """The shipped rows, predicted once for all tests of a process."""
    return validate()


def write_rows(path: Path, *changes: dict[str, str], columns: tuple[str, ...] = COLUMNS) -> Path:
    """A file with a row for each of the changes to PLAIN."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, restval="", extrasaction="ignore")
        writer.writeheader()
        writer.writerows(PLAIN | change for change in changes)
    return path


def row_with(folder: Path, **change: str) -> Row:
    """The row that a file of one has."""
    (row,) = read_rows(write_rows(folder / "rows.csv", change))
    return row
