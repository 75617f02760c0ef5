"""Hashes of points: the same in every process, another for whatever decides a result."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from steptime.cluster.files import cluster_named
from steptime.points.identity import digest, steptime_source, with_files
from steptime.workloads.spec import StepSpec

PRINT = """
from steptime.cluster.files import cluster_named
from steptime.points.identity import digest, steptime_source
from steptime.workloads.spec import StepSpec
import numpy
value = cluster_named("dgx-h100-pod"), StepSpec(tensor=2), {"a", "b", "c"}, numpy.arange(3.0)
print(digest(value), steptime_source())
"""


@dataclass(frozen=True)
class Named:
    """A value with a name."""

    name: str
    value: float


def adder(by: int):
    return lambda n: n + by


def test_another_process_finds_the_same() -> None:
    value = cluster_named("dgx-h100-pod"), StepSpec(tensor=2), {"c", "b", "a"}, np.arange(3.0)
    done = subprocess.run([sys.executable, "-c", PRINT], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [digest(value), steptime_source()]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0),
        (1, True),
        ("1", b"1"),
        (None, "None"),
        ((1, 2), [1, 2]),
        (("ab", "c"), ("a", "bc")),
        (((1,), 2), ((1, 2),)),
        ({"a": 1}, {"a": 2}),
        (Named("a", 1), Named("a", 2)),
        (np.zeros(4, "f4"), np.zeros(4, "f8")),
        (np.zeros((2, 2)), np.zeros(4)),
        (adder(1), adder(2)),
        (adder(1), lambda n: n * 1),
        (len, max),
        (Path("a"), "a"),
        (cluster_named("dgx-h100"), cluster_named("dgx-h100-pod")),
    ],
)
def test_what_differs_differs(one: object, other: object) -> None:
    assert digest(one) != digest(other)
    assert digest(one) == digest(one)


def test_a_function_made_twice_alike_is_the_same() -> None:
    assert digest(adder(3)) == digest(adder(3))


def test_a_file_counts_with_its_content(tmp_path: Path) -> None:
    path = tmp_path / "cluster.toml"
    assert with_files("dgx-h100") == "dgx-h100"
    path.write_text("a")
    before = with_files(str(path)), with_files(tmp_path)
    path.write_text("ab")
    after = with_files(str(path)), with_files(tmp_path)
    assert before[0] != after[0]
    assert before[1] != after[1]
    assert with_files(7) == 7
    assert with_files("a\0b") == "a\0b"
