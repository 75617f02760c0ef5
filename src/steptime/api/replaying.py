"""``steptime.replay``: the calls of a run once more, on live ranks of this machine."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from steptime.api.results import Run
from steptime.api.running import answer_of_ranks
from steptime.replay.run_options import Kind, ReplayOptions
from steptime.runs.record import Place

if TYPE_CHECKING:
    from steptime.program.stored import StoredProgram


def replay(
    run: str | Path,
    *,
    strategy: str | None = None,
    backend: Literal["gloo", "nccl", "steptime"] = "gloo",
    threads: int = 1,
    compute: Kind = "sleep",
    steps: int = 10,
    warmup: int = 2,
    timeout: float | str = "5min",
) -> Run:
    """Replay the step of a run on live ranks of this machine: as many as it had.

    The same calls with the same bytes in the same order, and something in place of computing that
    takes as long as it took: ``sleep``, ``busy`` or ``nothing``. ``run``: the folder of a run of
    record, train, compare, simulate or proxy; ``strategy``: whose step, where several ran.
    ``steps`` are timed after ``warmup``.

    Raises what ``st.run`` raises, and UsageError where the folder holds no step that can be
    replayed.

    >>> there = st.simulate("gpt2-nano", "laptop", ranks=2, strategy="replicated", batch=4)
    >>> here = st.replay(there.save("runs/there"), steps=2)
    >>> here.figures.bytes_sent_per_rank == there.figures.bytes_sent_per_rank
    True
    """
    from steptime.study.replayed import program_to_replay

    options = ReplayOptions(strategy=strategy, compute=compute, steps=steps, warmup=warmup)
    stored = program_to_replay(Path(run), strategy)
    place = Place(
        world_size=stored.program.ranks, threads=threads, backend=backend, launcher="steptime"
    )
    work = partial(_replayed, str(run), stored, options, place)
    ranks = stored.program.ranks
    return answer_of_ranks(work, ranks=ranks, backend=backend, threads=threads, timeout=timeout)


def _replayed(of: str, stored: "StoredProgram", options: ReplayOptions, place: Place) -> Run | None:
    """What a rank that ``replay`` started does."""
    from steptime.replay.backends import transport_of
    from steptime.study.replayed import replayed, replayed_record

    assert place.backend is not None  # noqa: S101
    transport = transport_of(place.backend)
    done = replayed(stored, transport, options, place.backend)
    if transport.world.rank:
        return None
    return Run(replayed_record(of, stored, done, options, place), done.timeline, (stored,))
