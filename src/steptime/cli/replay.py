"""``replay``: How would this run's step go here, call by call?"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from steptime.cli.measuring import oversubscription, ranks_here, teller
from steptime.cli.options import Flat, OutputOptions, RankOptions
from steptime.cli.ranks import Place, on_ranks
from steptime.replay.run_options import ReplayOptions

if TYPE_CHECKING:
    from steptime.program.stored import StoredProgram


def replay(
    run: Annotated[Path, Parameter(name="RUN")],
    /,
    *,
    asked: Flat[ReplayOptions] = ReplayOptions(),
    ranks: Flat[RankOptions] = RankOptions(),
    output: Flat[OutputOptions] = OutputOptions(),
) -> int:
    """How would this run's step go here, call by call?

    Makes the same calls with the same bytes in the same order on live ranks, by any backend, with
    something in place of computing that takes as long as it took.

    Parameters
    ----------
    run
        The folder of a run of record, train, compare, simulate or proxy.

    """
    from steptime.study.replayed import check_ranks, program_to_replay

    stored = program_to_replay(run, asked.strategy)

    def check(size: int) -> None:
        from steptime.host_memory import available_bytes
        from steptime.replay.backends import check_backend

        here = ranks_here(size)
        check_ranks(stored.program, size, here, available_bytes())
        check_backend(ranks.backend, here)

    def work(place: Place) -> None:
        _replay(run, stored, place, asked, ranks, output)

    return on_ranks("replay", ranks, output, stored.program.ranks, check, work)


def _replay(
    run: Path,
    stored: "StoredProgram",
    place: Place,
    asked: ReplayOptions,
    ranks: RankOptions,
    output: OutputOptions,
) -> None:
    from steptime.api.results import Run
    from steptime.cli.answer import record_place, write_answer
    from steptime.replay.backends import transport_of
    from steptime.replay.live import check_right
    from steptime.study.replayed import replayed, replayed_record

    transport = transport_of(ranks.backend)
    world = transport.world
    tell = teller(world.rank, output, aside=output.json)
    tell("\n".join([f"{stored.program.name}: {asked.steps} steps", *oversubscription(place)]))
    done = replayed(stored, transport, asked, ranks.backend)
    if world.rank == 0 and not done.wrong:
        record = replayed_record(str(run), stored, done, asked, record_place(place, ranks))
        write_answer(Run(record, done.timeline, (stored,)), place.out, output)
    world.barrier()  # an error here would end rank 0 before it has written
    check_right(done, ranks.backend)
