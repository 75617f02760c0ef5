"""The gallery of faults: check names what their comments say, and is silent about the twins."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from forked import forked

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
import gallery  # noqa: E402  # the benchmark is the judge

FAULTS = sorted(
    (file for file in (ROOT / "examples" / "broken").glob("*.py") if "-fixed" not in file.name),
    key=lambda one: one.name,
)
GOOD = sorted((ROOT / "examples" / "good").glob("*.py"))
QUICK = ("03", "16", "42", "47")
"""A hang, a deadlock, a death, a silent one."""

SHARED = ("156", "157", "158", "159", "161", "162", "163", "164")
"""Faults of ranks that share layers, shards or an optimizer's work."""

NOT_QUICK = ("21", "22", "30", "44", "46", "49", "58", "60", "66", "67", "85", *SHARED)
"""Faults that end the process, a message from any, and more; benchmarks/gallery.py runs all."""


def _twin(file: Path) -> Path:
    return file.with_name(f"{file.stem}-fixed.py")


def _check(script: gallery.Expected, folder: Path, backend: str = "gloo") -> gallery.Verdict:
    """Of a run, without the ranks that were late: on a busy machine any may be."""
    words = ["check", "--ranks", str(script.ranks), "--json", "--out", "run", str(script.file)]
    done = forked(*words, folder=folder, environ={"BACKEND": backend})
    told = gallery.seen(json.loads(done.out.splitlines()[-1]))
    findings = [one for one in told if one["kind"] != "straggler"]
    return gallery.Verdict(findings, done.code, None, done.out + done.err)


def _silence(script: gallery.Expected, folder: Path) -> tuple[str, str]:
    """What is wrong with the first of three runs that is told of no times, else with the third.

    Where others have the cores, ranks of a right script may compute for unequally long.
    """
    for attempt in range(3):
        own = folder / str(attempt)
        own.mkdir()
        verdict = _check(script, own)
        missed = gallery.miss(script, verdict)
        if not missed.startswith("noise: slow"):
            break
    return missed, verdict.output


def test_there_are_at_least_thirty_faults() -> None:
    threads = [file for file in FAULTS if "#" in gallery.expected(file).story]
    assert len(threads) >= 30


@pytest.mark.parametrize("file", FAULTS, ids=lambda one: one.stem)
def test_a_fault_is_short_plain_and_has_its_twin(file: Path) -> None:
    fault, twin = gallery.expected(file), gallery.expected(_twin(file))
    code = {one: one.file.read_text(encoding="utf-8").splitlines() for one in (fault, twin)}
    for lines in code.values():
        assert len(lines) <= 60
        assert not any("steptime" in line for line in lines)
    assert fault.kinds
    assert not twin.kinds
    assert fault.ranks == twin.ranks
    assert fault.blamed <= set(range(fault.ranks))
    assert fault.lines
    named = {code[fault][number - 1] for of in fault.lines.values() for number in of}
    assert all(line.strip() and not line.strip().startswith("#") for line in named)


@pytest.mark.parametrize(
    "number",
    [*QUICK, *(pytest.param(one, marks=pytest.mark.slow) for one in NOT_QUICK)],
)
def test_check_names_a_fault(number: str, tmp_path: Path) -> None:
    (file,) = (file for file in FAULTS if file.name.startswith(f"{number}-"))
    fault = gallery.expected(file)
    verdict = _check(fault, tmp_path)
    assert gallery.miss(fault, verdict) == "", verdict.output
    assert verdict.exit_code == 1


@pytest.mark.slow
def test_who_comes_late_to_a_call_that_others_failed_in_is_heard(tmp_path: Path) -> None:
    (file,) = (file for file in FAULTS if file.name.startswith("58-"))
    code = file.read_text(encoding="utf-8")
    late = "rank = dist.get_rank()\n__import__('time').sleep(0.7 * (rank == 1))\n"
    (tmp_path / file.name).write_text(code.replace("rank = dist.get_rank()\n", late, 1))
    fault = replace(gallery.expected(file), file=tmp_path / file.name)
    verdict = _check(fault, tmp_path)
    assert [one["ranks"] for one in verdict.findings if one["kind"] == "mismatch"] == [[2]]


@pytest.mark.slow
def test_who_receives_from_any_rank_of_our_backend_stands_in_a_circle(tmp_path: Path) -> None:
    (file,) = (file for file in FAULTS if file.name.startswith("46-"))
    fault = gallery.expected(file)
    verdict = _check(fault, tmp_path, backend="steptime")
    assert gallery.miss(fault, verdict) == "", verdict.output


def test_gloo_is_known_where_it_is_named_by_device(tmp_path: Path) -> None:
    (file,) = (file for file in FAULTS if file.name.startswith("38-"))
    fault = gallery.expected(file)
    verdict = _check(fault, tmp_path, backend="cpu:gloo")
    assert gallery.miss(fault, verdict) == "", verdict.output


@pytest.mark.parametrize(
    "number",
    [
        *(*QUICK, "05", "55"),
        *(pytest.param(one, marks=pytest.mark.slow) for one in ("21", "22", "44", "46", *SHARED)),
    ],
)
def test_check_is_silent_about_the_twin(number: str, tmp_path: Path) -> None:
    (file,) = (file for file in FAULTS if file.name.startswith(f"{number}-"))
    missed, output = _silence(gallery.expected(_twin(file)), tmp_path)
    assert missed == "", output


@pytest.mark.slow
@pytest.mark.parametrize("name", [one.stem for one in GOOD])
def test_check_is_silent_about_what_is_right(name: str, tmp_path: Path) -> None:
    example = gallery.expected(ROOT / "examples" / "good" / f"{name}.py")
    missed, output = _silence(example, tmp_path)
    assert missed == "", output


def test_the_judge_tells_a_wrong_line_a_wrong_rank_and_a_wrong_kind() -> None:
    fault = gallery.expected(FAULTS[0])
    places = [
        {"rank": rank, "line": min(lines), "file": str(fault.file)}
        for rank, lines in fault.lines.items()
    ]
    right = {"kind": fault.kinds[0], "ranks": [0, 1], "places": places, "what": ""}

    def missed(**changes: object) -> str:
        return gallery.miss(fault, gallery.Verdict([{**right, **changes}], 1, 1.0, ""))

    assert missed() == ""
    assert missed(kind="slow").startswith("not a mismatch")
    assert missed(ranks=[0]).startswith("blames [0]")
    assert missed(places=places[:1]).startswith("does not name line")
    assert gallery.miss(fault, gallery.Verdict([], 1, None, "")) == "nothing found"
