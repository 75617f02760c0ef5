"""Ranks that share a model train it as one process does, and call what the Program says."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from ranks import on_ranks

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))
from layouts import LLAMA, MODEL, alone, case, check, hybrid_of, job_of, shared, write_text

ON_2 = [
    case(tensor=2, sequence_parallel=True, recompute="full"),
    case(pipeline=2, micro_batches=4, schedule="zb-h1"),
    case(data=2, strategy="zero3"),
]
ON_4 = [
    case(tensor=2, data=2, strategy="overlapped_sharded"),
    case(tensor=4, strategy="overlapped"),
    case(data=4, strategy="zero2"),
    case(data=4, strategy="zero3", recompute="full"),
    case(tensor=2, data=2, strategy="zero3"),
    case(tensor=2, data=2, strategy="zero3", sequence_parallel=True),
    case(tensor=2, data=2, strategy="overlapped_sharded", sequence_parallel=True),
    case(tensor=2, context=2, strategy="sharded", sequence_parallel=True),
    case(context=4, micro_batches=1),
    case(pipeline=4, micro_batches=8, schedule="gpipe"),
    case(pipeline=4, micro_batches=8, schedule="zb-h1"),
    case(pipeline=2, data=2, micro_batches=4, schedule="1f1b", strategy="sharded"),
    case(pipeline=2, data=2, micro_batches=4, schedule="1f1b", strategy="overlapped"),
    case(pipeline=2, data=2, micro_batches=4, schedule="zb-h1", strategy="overlapped_sharded"),
    case(pipeline=2, tensor=2, micro_batches=4, schedule="interleaved", interleave=2),
    case(pipeline=2, tensor=2, micro_batches=4, schedule="zb-h1", sequence_parallel=True),
    case(pipeline=2, tensor=2, micro_batches=4, schedule="dualpipev", interleave=2),
    case(pipeline=2, context=2, micro_batches=4, schedule="1f1b", recompute="full"),
]
EXPERTS_ON_4 = [
    case(tensor=2, data=2, strategy="sharded"),
    case(expert=2, data=2, strategy="overlapped_sharded"),
    case(expert=2, data=2, strategy="zero3"),
    case(expert=2, tensor=2, sequence_parallel=True),
    case(expert=2, context=2, strategy="sharded"),
    case(expert=2, pipeline=2, micro_batches=4, schedule="zb-h1", strategy="overlapped"),
    case(pipeline=2, data=2, micro_batches=4, schedule="interleaved", interleave=2),
]
ON_8 = [
    case(
        tensor=2,
        data=2,
        pipeline=2,
        micro_batches=4,
        strategy="overlapped_sharded",
        sequence_parallel=True,
    ),
    case(tensor=2, context=2, pipeline=2, micro_batches=4, schedule="zb-h1"),
    case(pipeline=4, data=2, micro_batches=4, schedule="1f1b", strategy="sharded"),
    case(tensor=2, data=4, strategy="zero3"),
    case(pipeline=2, data=4, micro_batches=2, schedule="1f1b", strategy="sharded"),
]
HALVES = {
    "fp16": case(tensor=2, pipeline=2, micro_batches=4, schedule="zb-h1"),
    "bf16": case(tensor=2, data=2, strategy="zero3"),
    "bf16-params": case(pipeline=2, data=2, strategy="overlapped_sharded"),
    "fp8-emulated": case(tensor=4, sequence_parallel=True),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("engine")
    write_text(folder)
    return folder


def halves(folder):
    """What 16-bit trainings come to on this rank, and what becomes of one that overflows."""
    from steptime.train.loop import training_steps
    from steptime.train.parallel.hybrid import hybrid_training, parts_of_model
    from steptime.train.precision import LossScale
    from steptime.train.tensors import mean_over_ranks

    found = {}
    for precision, one in HALVES.items():
        job = job_of(folder, MODEL, precision)
        training = hybrid_training(job, hybrid_of(job, one), timed=False)
        steps = training_steps(training, 0)
        found[precision] = [mean_over_ranks(outcome.loss) for outcome in steps]
    job = job_of(folder, MODEL, "fp16")
    training = hybrid_training(job, hybrid_of(job, HALVES["fp16"]), timed=False)
    before = [p.clone() for _, p in parts_of_model(training)]
    overflowing = training_steps(training, 0, LossScale(scale=2.0**60))
    outcome = next(overflowing)
    same = all(map(torch.equal, before, [p for _, p in parts_of_model(training)]))
    held_out = training.held_out_loss(job.tokens, 1)
    return found, (same, outcome.loss_scale.scale, bool(torch.isfinite(outcome.norm))), held_out


@pytest.mark.slow
def test_half_precision_is_near_and_all_ranks_skip_the_step_that_overflows_on_one(folder, tmp_path):
    ((losses, _),) = on_ranks(1, alone, tmp_path, folder, MODEL)
    for found, skipped, held_out in on_ranks(4, halves, tmp_path, folder):
        for precision, curve in found.items():
            np.testing.assert_allclose(curve, losses, rtol=5e-3, err_msg=precision)
        assert skipped == (True, 2.0**59, False)
        assert held_out == pytest.approx(losses[0], rel=0.05)  # of untrained weights, other rows


def proven(folder, tmp_path, model, ranks, cases, backend="gloo"):
    ((losses, weights),) = on_ranks(1, alone, tmp_path, folder, model)
    assert losses[0] - losses[-1] > 0.5
    for found in on_ranks(ranks, shared, tmp_path, folder, model, cases, backend=backend):
        for one, result in zip(cases, found, strict=True):
            check(result, losses, weights, str(one))


def test_two_ranks_train_what_one_process_trains_by_the_calls_of_the_program(folder, tmp_path):
    proven(folder, tmp_path, MODEL, 2, ON_2)


@pytest.mark.slow
def test_four_ranks_train_what_one_process_trains_by_the_calls_of_the_program(folder, tmp_path):
    proven(folder, tmp_path, MODEL, 4, ON_4)


@pytest.mark.slow
def test_four_ranks_train_a_llama_with_experts_as_one_process_does(folder, tmp_path):
    proven(folder, tmp_path, LLAMA, 4, EXPERTS_ON_4)


@pytest.mark.slow
def test_eight_ranks_along_three_axes_train_what_one_process_trains(folder, tmp_path):
    proven(folder, tmp_path, MODEL, 8, ON_8)


@pytest.mark.slow
def test_the_backend_steptime_trains_shared_models_too(folder, tmp_path):
    proven(folder, tmp_path, MODEL, 4, [ON_4[n] for n in (4, 6, 13, 14)], backend="steptime")
