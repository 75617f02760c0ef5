"""The programs of a run, kept in its folder and read back."""

import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy import float64

from steptime.errors import UsageError
from steptime.program import Collective, Compute, Program, Recv, Send, Wait
from steptime.program import stored as module
from steptime.program.kernel import Kernel
from steptime.program.stored import PROGRAMS, StoredProgram, read_programs, write_programs
from steptime.timeline import Phase

LISTS = (
    (
        Compute(
            name="forward",
            flops=1e9,
            nbytes=float64(2.5),
            dtype="bf16",
            kernels=(Kernel("stream", (4096.0,), 3.0),),
        ),
        Send(name="go", axis="pipeline", by=1, nbytes=1 << 40, tag=3, after=(0,)),
        Wait(name="w", after=(1, -2)),
        Collective(name="sum", kind="all_reduce", group=("data",), nbytes=8, algorithm="ring"),
        Compute(name="update", seconds=0.25, phase=Phase.UPDATE, after=(3,), stream="side"),
    ),
    (
        Recv(name="come", axis="pipeline", by=-1, nbytes=1 << 40, tag=3),
        Collective(name="sum", kind="all_reduce", group=("data",), nbytes=8, algorithm="ring"),
    ),
)


def stored() -> StoredProgram:
    program = Program(
        name="two stages",
        axes={"data": 3, "pipeline": 2},
        lists=LISTS,
        class_of=np.array([0, 0, 0, 1, 1, 1], np.int32),
    )
    return StoredProgram(
        program=program,
        seconds=((0.5, 0.0, 0.0, 0.0, 0.25), (0.0, 0.0)),
        algorithms={"all_reduce": "ring"},
    )


def test_a_program_survives_the_round_trip(tmp_path: Path) -> None:
    before = stored()
    on_cores = replace(before, program=replace(before.program, on_cores=True))
    write_programs(tmp_path, [before, on_cores])
    after, again = read_programs(tmp_path)
    assert (after.program.on_cores, again.program.on_cores) == (False, True)
    assert after.program.lists == before.program.lists
    assert after.program.class_of.tolist() == before.program.class_of.tolist()
    assert (after.program.name, after.program.axes) == (before.program.name, before.program.axes)
    assert (after.seconds, after.algorithms) == (before.seconds, before.algorithms)
    assert again.program.lists == before.program.lists


def test_the_file_does_not_grow_with_ranks_that_do_the_same(tmp_path: Path) -> None:
    sizes = []
    for ranks in (16, 16_384):
        program = Program(
            name="p",
            axes={"data": ranks},
            lists=(LISTS[0][:1],),
            class_of=np.zeros(ranks, np.int32),
        )
        write_programs(tmp_path, [StoredProgram(program=program, seconds=((0.0,),))])
        sizes.append((tmp_path / PROGRAMS).stat().st_size)
        assert read_programs(tmp_path)[0].program.ranks == ranks
    assert sizes[1] - sizes[0] < 20


def test_a_folder_without_programs_has_none(tmp_path: Path) -> None:
    assert read_programs(tmp_path) == []
    write_programs(tmp_path, [])
    assert not list(tmp_path.iterdir())


def test_too_many_ops_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_OPS", 6)
    write_programs(tmp_path, [stored()])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda _: b"", "cannot read"),
        (lambda text: text[:-30], "cannot read"),
        (lambda text: edited(text, version=9), "version 9"),
        (lambda text: edited(text, format="x"), "another program"),
        (lambda text: edited(text, programs=[{}]), "cannot read"),
        (lambda text: of_program(text, name=2.5), "Expected `str`, got `float`"),
        (lambda text: of_program(text, classes=[[0, 10**18]]), "it must be at most"),
        (lambda text: of_program(text, lists=[[{"op": "Wait"}]]), "missing required"),
        (lambda text: of_program(text, seconds=[]), "not one duration for each op"),
    ],
    ids=[
        "empty",
        "truncated",
        "newer",
        "foreign",
        "incomplete",
        "number",
        "huge",
        "lacking",
        "few",
    ],
)
def test_what_is_no_such_file_is_refused_in_one_sentence(tmp_path: Path, change, complaint) -> None:
    write_programs(tmp_path, [stored()])
    path = tmp_path / PROGRAMS
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(UsageError, match=complaint) as error:
        read_programs(tmp_path)
    assert "\n" not in str(error.value)


def edited(text: bytes, **fields: object) -> bytes:
    return gzip.compress(json.dumps(json.loads(gzip.decompress(text)) | fields).encode())


def of_program(text: bytes, **fields: object) -> bytes:
    (record,) = json.loads(gzip.decompress(text))["programs"]
    return edited(text, programs=[record | fields])
