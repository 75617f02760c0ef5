"""The program of GPT-2 under a strategy against what its training really sends, call by call.

What is recorded are the calls that reach torch's process groups on real ranks, from the first to
the last of a ``steptime train gpt2``. Its steps are to be those of the program, in kind, group,
elements, dtype, root and order. Between and around them there is, and no program has it:

- the mean of the loss over all ranks, for the line of the log, and that of the held-out loss: for
  people to read, outside of what a step is timed by;
- barriers before the first and the last step that is timed, where each rank reads its counters;
- before a training that keeps parameters in memory which all ranks share, what tells them where.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode

from ranks import on_ranks
from steptime.program import Collective, check
from steptime.strategies import live_strategies
from steptime.train.options import (
    DataOptions,
    JobOptions,
    ModelOptions,
    RunOptions,
    TrainOptions,
)
from steptime.units import Size
from steptime.workloads.data_parallel import data_parallel
from steptime.workloads.models import Transformer

RANKS = 3
STEPS = 3
BUCKET = 96 << 10
BYTES = {"fp32": 4, "fp64": 8, "bf16": 2}
NAMES = {torch.float32: "fp32", torch.float64: "fp64", torch.bfloat16: "bf16"}

MODEL = {"layers": 3, "heads": 4, "hidden": 64, "tokens": 32}
TRAIN = TrainOptions(batch=6, bucket=Size(f"{BUCKET}B"))
VARIANTS = {
    **{name: (name, "fp32", TRAIN) for name in live_strategies()},
    "in half precision": ("overlapped_sharded", "bf16", replace(TRAIN, reduce_dtype="bf16")),
    "in two micro-batches": ("overlapped", "fp32", replace(TRAIN, accumulate=2)),
    "mixed, unclipped": ("sharded", "bf16", replace(TRAIN, clip=0.0)),
}


@dataclass(frozen=True)
class Call:
    """A collective: ``elements`` of the whole vector."""

    kind: str
    elements: int
    dtype: str
    root: int = 0
    ranks: int = RANKS


BARRIER = Call("barrier", 0, "")
MEAN = Call("all_reduce", 1, "fp32")

# Of the operators of torch.distributed: the kind, which argument is the whole vector, and which the
# root.
OPERATORS = {
    "allreduce_": ("all_reduce", 0, None),
    "reduce_": ("reduce", 0, 3),
    "broadcast_": ("broadcast", 0, 2),
    "_reduce_scatter_base_": ("reduce_scatter", 1, None),
    "_allgather_base_": ("all_gather", 0, None),
    "barrier": ("barrier", None, None),
}


class Recording(TorchDispatchMode):
    """Writes down what is asked of process groups, and lets it happen."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.namespace == "c10d":
            self.calls.append(recorded(func.__name__.split(".")[0], args))
        return func(*args, **(kwargs or {}))


def recorded(name, args):
    kind, vector, root = OPERATORS.get(name, (name, None, None))
    group = next(dist.ProcessGroup.unbox(a) for a in args if isinstance(a, torch.ScriptObject))
    if vector is None:
        return Call(kind, 0, "", 0, group.size())
    tensor = args[vector][0] if isinstance(args[vector], list) else args[vector]
    where = 0 if root is None else args[root]
    dtype = NAMES.get(tensor.dtype, str(tensor.dtype))
    return Call(kind, tensor.numel(), dtype, where, group.size())


def job_of(options, precision, data):
    return JobOptions(
        model=ModelOptions(**MODEL),
        data=DataOptions(data=data),
        train=options,
        precision=precision,
        compiled=False,
        steps=STEPS,
        warmup=1,
        seed=0,
    )


def trained(folder):
    """What a training of each variant calls, on one rank; and the tokens that there are."""
    from steptime.train.job import prepare_job
    from steptime.train.run import run_training

    made = {}
    for variant, (name, precision, options) in VARIANTS.items():
        job = prepare_job(job_of(options, precision, folder / "text.txt"), on_gpu=False)
        with Recording() as recording:
            run_training(
                job,
                live_strategies()[name],
                RunOptions(val_every=STEPS, val_batches=1),
                folder,
                lambda _: None,
            )
        made[variant] = recording.calls
    return made, job.config.vocabulary


@pytest.fixture(scope="module")
def training(tmp_path_factory):
    folder = tmp_path_factory.mktemp("calls")
    Path(folder / "text.txt").write_text("A step is data, and here is some to train on. " * 400)
    return on_ranks(RANKS, trained, folder, folder)


def of_program(variant, vocabulary, rank):
    """The calls of one step by the program of the same model, batch and buckets."""
    name, precision, options = VARIANTS[variant]
    program = data_parallel(
        Transformer(
            name="small",
            layers=MODEL["layers"],
            hidden=MODEL["hidden"],
            heads=MODEL["heads"],
            context=ModelOptions(**MODEL).config(vocabulary).context,
            vocabulary=vocabulary,
        ),
        name,
        ranks=RANKS,
        batch=options.batch,
        context=MODEL["tokens"],
        accumulate=options.accumulate,
        dtype=precision,
        reduce_dtype=options.reduce_dtype,
        bucket_bytes=int(options.bucket),
        clip=bool(options.clip),
    )
    check(program)
    return [
        Call(
            op.kind,
            op.nbytes // BYTES[op.dtype],
            "" if op.kind == "barrier" else op.dtype,
            op.root,
            program.groups(op.group).shape[1],
        )
        for op in program.lists[program.class_of[rank]]
        if isinstance(op, Collective)
    ]


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_training_calls_what_the_program_says(training, variant):
    for rank, (made, vocabulary) in enumerate(training):
        step = of_program(variant, vocabulary, rank)
        expected = [
            BARRIER,
            *(*step, BARRIER, MEAN),  # the first is not timed
            *(*step, MEAN) * (STEPS - 2),
            *(*step, MEAN),
            *(BARRIER, MEAN, BARRIER),  # the look at held-out rows, whose bytes are not a step's
            BARRIER,
        ]
        before, called = made[variant][: -len(expected)], made[variant][-len(expected) :]
        assert called == expected
        assert step
        assert not any(call.dtype in BYTES for call in before)  # what ranks agree on is no tensor


def test_the_norm_is_in_the_program_where_it_is_in_the_training(training):
    norm = Call("all_reduce", 1, "fp64")
    for variant in VARIANTS:
        made, vocabulary = training[0]
        clipped = VARIANTS[variant][0] not in ("replicated", "overlapped")
        clipped = clipped and VARIANTS[variant][2].clip > 0
        assert made[variant].count(norm) == STEPS * clipped
        assert of_program(variant, vocabulary, 0).count(norm) == clipped


def test_a_program_of_other_buckets_makes_other_calls(training):
    made, vocabulary = training[0]
    gathers = [call for call in made["overlapped_sharded"] if call.kind == "all_gather"]
    step = of_program("overlapped_sharded", vocabulary, 0)
    assert len(gathers) == STEPS * sum(call.kind == "all_gather" for call in step)
    assert len(gathers) > STEPS  # there is more than one bucket
