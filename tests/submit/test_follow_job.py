"""Following a job whose states and output a test makes."""

from collections.abc import Callable
from pathlib import Path

import pytest

from steptime.errors import SteptimeError
from steptime.slurm import SilentError, Status
from steptime.submit import follow as module
from steptime.submit.follow import follow

WAITS = Status(state="PENDING", reason="Resources")
RUNS = Status(state="RUNNING", nodes="n1")
ENDED = Status(state="COMPLETED", nodes="n1")


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in {"_TAIL_S": 0.01, "_FIRST_LOOK_S": 0.02, "_LATE_S": 0.1}.items():
        monkeypatch.setattr(module, name, seconds)


def seen(
    *looks: Status | SteptimeError | Callable[[], Status], path: Path | None = None
) -> tuple[Status, list[str], str]:
    """The end, the sentences, and the output of a job that stands at each look as is said."""
    left, told, shown = list(looks), list[str](), list[str]()

    def of_job(_: int) -> Status:
        one = left.pop(0)
        if isinstance(one, SteptimeError):
            raise one
        return one if isinstance(one, Status) else one()

    return follow(12, told.append, shown.append, path=path, of_job=of_job), told, "".join(shown)


def test_each_state_is_told_once() -> None:
    _, told, _ = seen(WAITS, WAITS, RUNS, RUNS, ENDED)
    assert told == [
        "job 12 waits (Resources: for free nodes)",
        "job 12 runs on n1",
    ]


def test_an_end_from_which_slurm_may_bring_it_back_is_looked_at_twice() -> None:
    lost = Status(state="NODE_FAIL", nodes="n1")
    status, told, _ = seen(RUNS, lost, WAITS, RUNS, lost, lost)
    assert status == lost
    assert told[1:3] == ["job 12 is node fail", "job 12 waits (Resources: for free nodes)"]


def test_what_it_prints_is_shown_to_the_last_byte(tmp_path: Path) -> None:
    file = tmp_path / "job.out"

    def prints(text: bytes, then: Status) -> Callable[[], Status]:
        def look() -> Status:
            with file.open("ab") as out:
                out.write(text)
            return then

        return look

    e_acute = "é".encode()
    looks = [prints(b"one\nt" + e_acute[:1], RUNS), prints(e_acute[1:] + b"\n", RUNS)]
    _, told, shown = seen(WAITS, *looks, prints(b"last", ENDED), path=file)
    assert shown == "one\nté\nlast"
    assert told[-1] == "job 12 runs on n1"


def test_output_that_this_host_does_not_see_is_told(tmp_path: Path) -> None:
    _, told, shown = seen(RUNS, ENDED, path=tmp_path / "elsewhere")
    assert shown == ""
    assert told[-1] == f"what it printed cannot be seen from here: {tmp_path}/elsewhere on n1"


def test_a_controller_that_is_silent_for_a_while_is_asked_again() -> None:
    status, told, _ = seen(RUNS, SilentError("Slurm does not answer: no"), RUNS, ENDED)
    assert status == ENDED
    assert told[1:] == ["Slurm does not answer: no; still asking", "job 12 runs on n1"]


def test_a_controller_that_stays_silent_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = SilentError("Slurm does not answer: no")
    with pytest.raises(SilentError):
        seen(silent)
    monkeypatch.setattr(module, "_SILENCE_S", 0.0)
    with pytest.raises(SilentError):
        seen(RUNS, silent)


def test_a_job_that_slurm_has_forgotten_is_an_error() -> None:
    with pytest.raises(SteptimeError, match="does not know job 12"):
        seen(RUNS, SteptimeError("Slurm does not know job 12"))
