"""Kernels of an op: kept exactly in files, and refused where they cannot be."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from steptime.errors import UsageError
from steptime.program import Compute, Kernel, Program, check
from steptime.program.chakra import read_chakra, write_chakra
from steptime.program.kernel import kernel_of, kernel_text
from steptime.program.stored import StoredProgram, read_programs, write_programs
from steptime.program.what_if import with_speeds

PRODUCT = Kernel("product", (4096.0, 1024.0, 1 / 3, 1.0), 2.5)
STREAM = Kernel("stream", (1e9,))


def program_of(*kernels: Kernel) -> Program:
    op = Compute(name="forward", flops=1e9, nbytes=1e6, kernels=kernels)
    return Program(name="one", axes={"data": 1}, lists=((op,),), class_of=np.zeros(1, np.int32))


@pytest.mark.parametrize("kernels", [(), (PRODUCT,), (PRODUCT, STREAM)])
def test_files_keep_kernels_exactly(tmp_path: Path, kernels: tuple[Kernel, ...]) -> None:
    program = program_of(*kernels)
    write_chakra(program, tmp_path / "traces")
    assert read_chakra(tmp_path / "traces").lists == program.lists
    write_programs(tmp_path, [StoredProgram(program=program, seconds=((0.0,),))])
    (stored,) = read_programs(tmp_path)
    assert stored.program.lists == program.lists


def test_a_kernel_in_words_is_read_as_it_was() -> None:
    for kernel in (PRODUCT, STREAM):
        assert kernel_of(kernel_text(kernel)) == kernel


@pytest.mark.parametrize(
    ("text", "said"),
    [("sort 1 2", "must begin with product"), ("product one", "its kind, times and sizes")],
)
def test_words_that_are_no_kernel_are_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        kernel_of(text)


@pytest.mark.parametrize(
    ("kernel", "said"),
    [
        (Kernel("product", (1.0, 2.0)), "has 2 sizes: one of kind product has m, n, k, batch"),
        (Kernel("stream", (-1.0,)), "kind stream has nbytes of -1.0"),
        (Kernel("stream", (1.0,), float("nan")), "has times of nan"),
    ],
)
def test_a_kernel_that_cannot_be_is_refused(kernel: Kernel, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        check(program_of(kernel))


def test_what_is_faster_launches_less() -> None:
    (faster,) = with_speeds(program_of(PRODUCT), {"forward": 2.0}).lists[0]
    assert isinstance(faster, Compute)
    assert faster.kernels == (replace(PRODUCT, times=1.25),)
