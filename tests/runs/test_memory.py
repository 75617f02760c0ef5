"""What a rank keeps of a model in words, and what is said where its device has less."""

from dataclasses import replace

from steptime.runs.figures import Spread, StepFigures, UnderSoftware, WouldFit, fastest
from steptime.runs.memory import memory_lines, memory_of, misfit, misfits
from steptime.workloads.model_memory import Memory

STAGES = [
    Memory(parameters=10**9, gradients=1, optimizer=0, passing=0, activations=2),
    Memory(parameters=10**9, gradients=0, optimizer=0, passing=0, activations=0),
]
FITS, SMALL = memory_of(STAGES, 2e9), memory_of(STAGES, 5e8)


def entry(step_s: float, memory=None) -> StepFigures:
    return StepFigures(
        source="simulated",
        step_time_s=Spread(step_s, step_s, step_s),
        compute_s=step_s,
        exposed_comm_s=0.0,
        update_s=0.0,
        other_s=0.0,
        bytes_sent_per_rank=[0],
        bytes_received_per_rank=[0],
        ranks=[],
        model_memory=memory,
    )


def test_the_rank_that_keeps_the_most_is_told():
    assert (FITS.total, FITS.fits, memory_of(STAGES).fits) == (10**9 + 3, True, None)
    assert list(memory_lines(FITS)) == [
        "memory of the model, computed: 1.00 GB a rank at most",
        "  parameters 1.00 GB, gradients 1 B, activations 2 B",
    ]


def test_what_does_not_fit_is_told_with_what_would():
    assert misfit(FITS) == misfit(None) == misfit(memory_of(STAGES)) == ""
    assert misfit(SMALL) == "a rank keeps 1.00 GB and its device has 500 MB (computed)."
    here = WouldFit(options="--zero 1", ranks=2, total=400_000_000, has_places=True)
    there = WouldFit(options="--ranks 4", ranks=4, total=300_000_000, has_places=False)
    assert misfit(replace(SMALL, would_fit=[here, there])).endswith(
        "It would with --zero 1 (400 MB), or with --ranks 4 (300 MB) on a larger cluster of such "
        "devices."
    )


def test_the_fastest_is_one_that_fits_if_any_does():
    strategies = {"a": entry(1.0, SMALL), "b": entry(2.0, FITS), "c": entry(3.0)}
    assert fastest(strategies) == "b"
    assert misfits(strategies).startswith("a: a rank keeps 1.00 GB")
    assert misfits({"b": entry(2.0, FITS)}) == ""
    stuck = {"a": entry(2.0, SMALL), "b": entry(1.0, SMALL)}
    assert fastest(stuck) == "b"
    assert misfits(stuck).startswith("none of the strategies; of the least a rank keeps")


def test_what_fits_without_a_framework_alone_is_told():
    tight = replace(FITS, too_much=UnderSoftware(software="megatron", total=3 * 10**9))
    assert list(memory_lines(tight))[-2:] == [
        "  under megatron 3.00 GB, more than the 2.00 GB of its device:",
        "  buffers, copies of logits and fragments are not counted above",
    ]
    assert misfit(tight) == ""
