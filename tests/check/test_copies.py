"""Copies that a line makes, has a call write into, and drops."""

import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from steptime.check.observe.copies import Copies

BESIDE = """
import torch
rows, mask = torch.ones(4, 4), torch.tensor([True, False, True, False])
held = {"a": rows, "b": [rows]}
layer = torch.nn.Linear(3, 3)
layer.weight.grad = torch.ones(3, 3)
def call():
"""


def _dropped(line: str, folder: Path, *, there: bool = True) -> str:
    """What is said of a call on a line of a script: all functions there write what they get."""
    seen = Copies()
    found: list[str] = []

    def all_reduce(tensor: torch.Tensor, *_: Any) -> None:
        found.append(seen.dropped(sys._getframe(1), [tensor]))

    file = folder / "script.py"
    file.write_text(f"{BESIDE}    {line}\n")
    script = {
        "all_reduce": all_reduce,
        "dist": type("dist", (), {"all_reduce": all_reduce, "gather_object": all_reduce}),
    }
    call = runpy.run_path(str(file), init_globals=script)["call"]
    if not there:
        file.unlink()
    call()
    (told,) = found
    return told


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("dist.all_reduce(rows[mask])", "rows[mask]"),
        ("all_reduce(rows.double(), None)", "rows.double()"),
        ("dist.all_reduce(tensor=rows[[0, 2]])", "rows[[0, 2]]"),
        ('dist.all_reduce(held["a"].half())', "held['a'].half()"),
        ('dist.all_reduce(held["b"][0].half())', "held['b'][0].half()"),
        ("dist.all_reduce(layer.weight.data.double())", "layer.weight.data.double()"),
        ("dist.all_reduce(layer.weight.grad.clone())", "layer.weight.grad.clone()"),
        ("dist.all_reduce(\n        rows[mask]\n    )", "rows[mask]"),
    ],
)
def test_a_copy_is_told_as_it_stands_in_the_line(line: str, told: str, tmp_path: Path) -> None:
    assert _dropped(line, tmp_path) == told


@pytest.mark.parametrize(
    "line",
    [
        "dist.all_reduce(rows)",
        "dist.all_reduce(rows[1])",
        "dist.all_reduce(rows[1:3])",
        "dist.all_reduce(rows.float())",
        "dist.all_reduce(rows.contiguous())",
        "dist.all_reduce(rows.reshape(-1))",
        "dist.all_reduce(rows.clone())",
        "dist.all_reduce(torch.zeros(1).double())",
        "dist.all_reduce(torch.zeros(1))",
        "dist.gather_object(rows.double())",
        "dist.all_reduce(layer.weight.data)",
        "dist.all_reduce(layer.weight.grad)",
        "dist.all_reduce((lambda: rows)().double())",
    ],
)
def test_what_others_have_or_is_made_for_the_call_is_left_alone(line: str, tmp_path: Path) -> None:
    assert _dropped(line, tmp_path) == ""


def test_a_line_that_cannot_be_read_is_left_alone(tmp_path: Path) -> None:
    assert _dropped("dist.all_reduce(rows[mask])", tmp_path, there=False) == ""
