"""A pipeline schedule of the user's own: named by its file, and refused where it is wrong."""

import json
import subprocess
import sys

import pytest

from steptime.errors import SteptimeError, UsageError
from steptime.workloads.pipelines import pipeline, pipeline_timeline

ALL_BUT_ORDER = '''
"""GPipe that goes back in the opposite order."""

from steptime.workloads.pipelines import Pass, Schedule


def passes(shape, stage):
    yield from (Pass("forward", number) for number in range(shape.micro_batches))
    yield from (Pass("backward", number) for number in reversed(range(shape.micro_batches)))


SCHEDULE = Schedule(name="mirrored", summary="GPipe, last in first out.", passes=passes)
'''


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(ALL_BUT_ORDER)
    return str(path)


def test_a_file_is_a_schedule_as_those_that_are_shipped(own):
    made = pipeline(own, stages=4, micro_batches=8)
    gpipe = pipeline("gpipe", stages=4, micro_batches=8)
    assert made.schedule.name == "mirrored"
    assert pipeline_timeline(made).slots >= pipeline_timeline(gpipe).slots


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        (
            "range(shape.micro_batches))\n    y",
            "range(1))\n    y",
            "leaves out the forward of",
        ),
        ("reversed(range(shape", "reversed(range(2 * shape", "runs once too often the backward"),
        ('Pass("backward", number)', "number", "yields what is no pass for stage 0"),
        ("shape.micro_batches))\n    y", "shape.rows))\n    y", "fails for stage 0: line 8: Attr"),
    ],
)
def test_a_wrong_one_is_refused_in_a_sentence(own, tmp_path, before, after, sentence):
    text = ALL_BUT_ORDER.replace(before, after, 1)
    assert text != ALL_BUT_ORDER
    (tmp_path / "mine.py").write_text(text)
    with pytest.raises(SteptimeError, match=sentence):
        pipeline(own, stages=2, micro_batches=4)


def test_one_that_waits_for_itself_is_refused(own, tmp_path):
    first, then = 'Pass("forward", number)', 'Pass("backward", number)'
    swapped = ALL_BUT_ORDER.replace(first, "X").replace(then, first).replace("X", then)
    (tmp_path / "mine.py").write_text(swapped)
    with pytest.raises(SteptimeError, match="the schedule mirrored waits for itself"):
        pipeline(own, stages=2, micro_batches=4)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("1f1bb", "did you mean 1f1b"),
        ("x", "choose one of 1f1b, dualpipev, gpipe"),
        ("no.py", "no file no"),
    ],
)
def test_a_schedule_that_is_not_there_is_refused(name, sentence):
    with pytest.raises(UsageError, match=sentence):
        pipeline(name, stages=2, micro_batches=4)


def command(*words, folder, foreign=None):
    led = "import steptime.workloads.pipelines as p; p.__path__.append(sys.argv.pop(1))\n"
    script = folder / "there.py"
    script.write_text(
        f"import sys\n{led if foreign else ''}from steptime.cli import main\nsys.exit(main())\n"
    )
    there = [str(foreign)] if foreign else []
    ended = subprocess.run(
        [sys.executable, str(script), *there, *words, "--json"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


SIMULATE = (
    *("simulate", "gpt2", "--cluster", "dgx-h100", "--ranks", "4", "--pipeline", "4"),
    *("--out", "run", "--schedule"),
)


@pytest.mark.slow
def test_a_file_that_the_package_leads_to_is_shown_and_simulated(tmp_path):
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "mirrored.py").write_text(ALL_BUT_ORDER)
    shown = command("show", "pipeline", "--schedule", "mirrored", folder=tmp_path, foreign=foreign)
    assert shown["pipeline"]["schedule"] == "mirrored"
    there = command(*SIMULATE, "mirrored", folder=tmp_path, foreign=foreign)
    (tmp_path / "mine.py").write_text(ALL_BUT_ORDER)
    own = command(*SIMULATE, "mine.py", folder=tmp_path)
    times = [run["strategies"]["replicated"]["step_time_s"]["median"] for run in (there, own)]
    assert times[0] == times[1] > 0
