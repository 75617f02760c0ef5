"""POP's efficiencies on timelines whose values a person can work out."""

from collections.abc import Mapping, Sequence

import pytest

from steptime.errors import UsageError
from steptime.timeline import Phase, Recorder, Timeline, merge
from steptime.timeline.efficiency import Usage, efficiency, scaling, usage_of_steps

EXACT = 1e-9
Spans = Sequence[tuple[Phase, float, float]]
C, M, U, W = Phase.COMPUTE, Phase.COMMUNICATION, Phase.UPDATE, Phase.WAIT


def timeline_of(ranks: Mapping[int, Sequence[tuple[float, float, Spans]]]) -> Timeline:
    """A timeline of the steps (begin, end, what runs in it) of each rank."""
    recorders = []
    for rank, steps in ranks.items():
        recorder = Recorder()
        for number, (begin, end, spans) in enumerate(steps):
            recorder.begin_step(number)
            for phase, start, stop in spans:
                recorder.add("comm" if phase is M else "compute", "x", phase, start, stop)
            recorder.add("step", "s", Phase.STEP, begin, end)
        recorders.append(recorder.timeline(rank, len(ranks)))
    return merge(recorders)


def one_step(length: float, *ranks: Spans) -> Timeline:
    return timeline_of({rank: [(0.0, length, spans)] for rank, spans in enumerate(ranks)})


def test_perfect_balance():
    usage = usage_of_steps(one_step(4.0, *[[(C, 0, 3), (U, 3, 4)]] * 4), "s")
    found = efficiency(usage, usage)
    assert usage.useful_s == pytest.approx((4.0,) * 4, abs=EXACT)
    assert (
        found.load_balance,
        found.communication_efficiency,
        found.parallel_efficiency,
        found.serialisation_efficiency,
        found.transfer_efficiency,
    ) == pytest.approx((1.0,) * 5, abs=EXACT)


def test_one_straggler():
    quick, slow = [(C, 0, 2), (M, 2, 4)], [(C, 0, 4)]
    usage = usage_of_steps(one_step(4.0, quick, quick, quick, slow), "s")
    found = efficiency(usage, usage)
    assert found.load_balance == pytest.approx(10 / 16, abs=EXACT)
    assert found.communication_efficiency == pytest.approx(1.0, abs=EXACT)
    assert found.parallel_efficiency == pytest.approx(10 / 16, abs=EXACT)


def test_pure_transfer():
    usage = usage_of_steps(one_step(4.0, *[[(C, 0, 3), (M, 3, 4)]] * 2), "s")
    found = efficiency(usage, Usage(useful_s=(3.0, 3.0), run_time_s=3.0))
    assert found.load_balance == pytest.approx(1.0, abs=EXACT)
    assert found.communication_efficiency == pytest.approx(0.75, abs=EXACT)
    assert found.serialisation_efficiency == pytest.approx(1.0, abs=EXACT)
    assert found.transfer_efficiency == pytest.approx(0.75, abs=EXACT)


def test_what_hides_behind_compute_costs_nothing_and_what_overlaps_counts_once():
    spans = [(C, 0, 2), (C, 1, 3), (U, 2.5, 3.5), (M, 0, 3.5), (M, 3.5, 4)]
    usage = usage_of_steps(one_step(4.0, spans), "s")
    assert usage.useful_s == pytest.approx((3.5,), abs=EXACT)
    assert efficiency(usage).communication_efficiency == pytest.approx(3.5 / 4, abs=EXACT)


def test_a_wait_within_compute_is_not_useful():
    usage = usage_of_steps(one_step(4.0, [(C, 0, 4), (W, 1, 2)]), "s")
    assert usage.useful_s == pytest.approx((3.0,), abs=EXACT)


def test_many_steps_from_the_first_that_counts():
    # The ranks take turns in being late, so no step is longer than 3 and the run is not 4 × 3.
    first = [(0.0, 9.0, [(C, 0, 1)])]
    early = [(9.0, 11.0, [(C, 9, 11)]), (11.0, 14.0, [(C, 11, 12)])]
    late = [(9.0, 12.0, [(C, 9, 12)]), (12.0, 14.0, [(C, 12, 14)])]
    usage = usage_of_steps(timeline_of({0: first + early, 1: first + late}), "s", first=1)
    assert (usage.steps, usage.run_time_s) == (2, pytest.approx(5.0, abs=EXACT))
    assert usage.useful_s == pytest.approx((3.0, 5.0), abs=EXACT)


def test_a_run_takes_as_long_as_its_slowest_rank():
    ranks = {0: [(0.0, 2.0, [(C, 0, 2)])], 1: [(0.0, 6.0, [(C, 0, 3)])]}
    usage = usage_of_steps(timeline_of(ranks), "s")
    assert usage.run_time_s == pytest.approx(6.0, abs=EXACT)
    found = efficiency(usage)
    assert found.parallel_efficiency == pytest.approx(2.5 / 6, abs=EXACT)
    assert found.communication_efficiency == pytest.approx(3 / 6, abs=EXACT)


def test_only_steps_that_all_ranks_took_count():
    whole = [(0.0, 1.0, [(C, 0, 1)]), (1.0, 2.0, [(C, 1, 2)])]
    usage = usage_of_steps(timeline_of({0: whole, 1: whole[:1]}), "s")
    assert (usage.steps, usage.run_time_s) == (1, pytest.approx(1.0, abs=EXACT))


def test_strong_scaling_against_one_rank():
    reference = Usage(useful_s=(8.0,), run_time_s=10.0)
    usage = Usage(useful_s=(4.0, 6.0), run_time_s=8.0)
    found = scaling(usage, reference)
    assert found.speedup == pytest.approx(10 / 8, abs=EXACT)
    assert found.efficiency == pytest.approx(10 / 8 / 2, abs=EXACT)
    assert found.computation_scalability == pytest.approx(8 / 10, abs=EXACT)
    assert found.global_efficiency == pytest.approx(5 / 8 * 8 / 10, abs=EXACT)


def test_weak_scaling_counts_the_work_of_all_ranks():
    reference = Usage(useful_s=(8.0,) * 2, run_time_s=10.0)
    usage = Usage(useful_s=(8.0,) * 6, run_time_s=10.0)
    found = scaling(usage, reference, "weak")
    assert found.speedup == pytest.approx(3.0, abs=EXACT)
    assert found.efficiency == pytest.approx(1.0, abs=EXACT)
    assert found.computation_scalability == pytest.approx(1.0, abs=EXACT)
    assert found.global_efficiency == pytest.approx(0.8, abs=EXACT)


def test_threads_that_halve_nothing_scale_as_computation():
    reference = Usage(useful_s=(8.0,), run_time_s=8.0)
    usage = Usage(useful_s=(8.0,), run_time_s=8.0, threads=2)
    found = scaling(usage, reference)
    assert (found.speedup, found.efficiency) == pytest.approx((1.0, 0.5), abs=EXACT)
    assert found.computation_scalability == pytest.approx(0.5, abs=EXACT)


def test_runs_of_unlike_length_compare_step_by_step():
    reference = Usage(useful_s=(80.0,), run_time_s=80.0, steps=10)
    usage = Usage(useful_s=(8.0, 8.0), run_time_s=8.0, steps=2)
    assert scaling(usage, reference).speedup == pytest.approx(2.0, abs=EXACT)
    assert scaling(usage, reference).computation_scalability == pytest.approx(1.0, abs=EXACT)


def test_better_than_ideal_is_not_clipped():
    reference = Usage(useful_s=(8.0,), run_time_s=8.0)
    usage = Usage(useful_s=(3.0, 3.0), run_time_s=3.0)
    found = scaling(usage, reference)
    assert found.global_efficiency == pytest.approx(4 / 3, abs=EXACT)
    assert found.efficiency == pytest.approx(4 / 3, abs=EXACT)


def test_global_efficiency_is_efficiency_but_for_the_reference():
    reference = Usage(useful_s=(7.0,), run_time_s=8.0)
    usage = Usage(useful_s=(3.0, 3.5, 3.7), run_time_s=5.0, threads=2)
    found = scaling(usage, reference)
    of_reference = efficiency(reference).parallel_efficiency
    assert found.global_efficiency == pytest.approx(found.efficiency * of_reference, abs=EXACT)


def test_steps_of_no_length_are_refused():
    with pytest.raises(UsageError, match="the steps take 0 s, which has no efficiency"):
        usage_of_steps(one_step(0.0, [(C, 0, 0)]), "s")


def test_steps_without_compute_are_refused():
    with pytest.raises(UsageError, match="no rank computes or updates"):
        usage_of_steps(one_step(2.0, [(M, 0, 2)]), "s")


@pytest.mark.parametrize(("name", "first"), [("other", 0), ("s", 1)])
def test_steps_that_are_not_there_are_refused(name, first):
    with pytest.raises(UsageError, match=f"no step of {name} from step {first} on"):
        usage_of_steps(one_step(2.0, [(C, 0, 2)]), name, first=first)
