"""The programs of data parallelism against the training of this package, call by call."""

from types import SimpleNamespace

import pytest
import torch

from steptime.errors import UsageError
from steptime.program import Collective, Compute, Wait, check
from steptime.strategies import live_strategies, strategy_named
from steptime.timeline import Phase
from steptime.train.config import gpt2
from steptime.train.flat import FlatModel
from steptime.train.layout import plan_layout
from steptime.train.model import Decoder
from steptime.train.sync import GradientSync
from steptime.workloads.data_parallel import data_parallel
from steptime.workloads.models import Transformer, model_named
from steptime.workloads.sync import sync_named

SMALL = Transformer(name="small", layers=3, hidden=64, heads=4, context=32, vocabulary=500)
BUCKET = 96 << 10
RANKS = 3
DTYPES = {torch.float32: "fp32", torch.bfloat16: "bf16"}


class Calls:
    """A communicator that writes down what it is asked for: kind, bytes, dtype, root."""

    ranks = RANKS
    rank = 0
    recorder = None

    def __init__(self):
        self.made = []

    def __getattr__(self, kind):
        def call(tensor=None, root=0):
            nbytes, dtype = (0, "") if tensor is None else (tensor.nbytes, DTYPES[tensor.dtype])
            self.made.append((kind, nbytes, dtype, root))
            return SimpleNamespace(wait=lambda: None)

        return call


def calls_of_training(strategy, compute=torch.float32):
    """What one step of the live training asks of its communicator, in order."""
    config = gpt2(layers=3, heads=4, hidden=64, context=32, vocabulary=500)
    model = Decoder(config, torch.Generator().manual_seed(0))
    tensors = [(name, tuple(p.shape)) for name, p in model.named_parameters()]
    layout = plan_layout(tensors, RANKS, BUCKET // 4 if strategy.overlapped else None)
    flat = FlatModel(layout, torch.zeros(layout.size, dtype=compute), torch.zeros(layout.size))
    calls = Calls()
    sync = GradientSync(model, model.units(), flat, strategy, calls)
    sync.expect(first=True, last=True)
    tokens = torch.zeros(1, 32, dtype=torch.int64)
    model(tokens, tokens).backward()
    sync.reduce()
    for bucket in range(len(layout.buckets)):
        sync.share(bucket)
    return calls.made


def collectives(program, rank=0):
    ops = program.lists[program.class_of[rank]]
    return [op for op in ops if isinstance(op, Collective)]


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *((name, torch.float32) for name in live_strategies()),
        ("overlapped_sharded", torch.bfloat16),
    ],
)
def test_the_calls_are_those_of_the_training(name, dtype):
    strategy = strategy_named(name)
    program = data_parallel(
        SMALL,
        name,
        ranks=RANKS,
        batch=RANKS,
        bucket_bytes=BUCKET,
        clip=False,
        dtype=DTYPES[dtype],
    )
    check(program)
    expected = calls_of_training(strategy, dtype)
    assert len(expected) > 1 or name == "replicated"
    for rank in range(RANKS):
        made = [
            (op.kind, op.nbytes, op.dtype if op.nbytes else "", op.root)
            for op in collectives(program, rank)
        ]
        assert made == expected


@pytest.mark.parametrize("name", live_strategies())
def test_the_norm_is_added_up_where_no_rank_knows_all_of_it(name):
    program = data_parallel(SMALL, name, ranks=RANKS, batch=RANKS)
    norms = [op for op in collectives(program) if op.name == "norm"]
    partitioned = name not in ("replicated", "overlapped")
    assert [(op.kind, op.nbytes) for op in norms] == [("all_reduce", 8)] * partitioned


def test_gradients_of_gpt2_are_498_megabytes():
    (reduce,) = collectives(data_parallel(model_named("gpt2"), "replicated", ranks=8))
    assert reduce.nbytes == 4 * 124_475_904


def test_overlapped_buckets_are_reduced_behind_the_backward_of_what_fills_them():
    program = data_parallel(SMALL, "overlapped", ranks=RANKS, batch=RANKS, bucket_bytes=BUCKET)
    ops = program.lists[0]
    filled = [ops[op.after[0]].name for op in collectives(program)]
    assert filled == [
        "backward block 2",
        "backward block 1",
        "backward block 1",
        "backward block 0",
        "backward embedding",
    ]
    norm = next(op for op in ops if op.name == "norm")
    assert {ops[place].name for place in norm.after} == {op.name for op in collectives(program)}


def test_the_next_forward_waits_for_just_the_parameters_that_it_needs():
    program = data_parallel(
        SMALL, "overlapped_sharded", ranks=RANKS, batch=RANKS, bucket_bytes=BUCKET
    )
    ops = program.lists[0]
    gathered = [op.name for op in ops if isinstance(op, Collective) and op.kind == "all_gather"]
    forward = [op for op in ops if op.name.startswith("forward")]
    needed = [[ops[place].name for place in op.after] for op in forward]
    assert needed[0] == gathered[:1]
    assert needed[-1] == gathered[-1:]
    assert all(place < 0 for op in forward for place in op.after)
    assert {name for names in needed for name in names} == set(gathered)


@pytest.mark.parametrize("name", ["server", "sliced", "sharded", "shared"])
def test_a_step_without_overlap_ends_when_the_parameters_are_there(name):
    program = data_parallel(SMALL, name, ranks=RANKS, batch=RANKS)
    for ops in program.lists:
        assert isinstance(ops[-1], Wait)
        assert {ops[place].kind for place in ops[-1].after} == {
            call.kind for call in sync_named(name).share(RANKS, RANKS)
        }


def test_seconds_that_are_given_are_shared_out():
    for micro_batches in (1, 4):
        program = data_parallel(
            SMALL,
            "overlapped_sharded",
            ranks=RANKS,
            batch=12,
            accumulate=micro_batches,
            bucket_bytes=BUCKET,
            compute_s=0.9,
            update_s=0.2,
        )
        computes = [op for op in program.lists[0] if isinstance(op, Compute)]
        forward = sum(op.seconds for op in computes if op.name.startswith("forward"))
        backward = sum(op.seconds for op in computes if op.name.startswith("backward"))
        update = sum(op.seconds for op in computes if op.phase is Phase.UPDATE)
        assert (forward, backward, update) == pytest.approx((0.3, 0.6, 0.2))


def test_flops_are_those_of_the_model_whatever_the_micro_batches():
    model = SMALL.padded()
    for micro_batches in (1, 2):
        program = data_parallel(
            SMALL, "server", ranks=2, batch=8, context=16, accumulate=micro_batches
        )
        flops = sum(op.flops for op in program.lists[0] if isinstance(op, Compute))
        assert flops == pytest.approx(4 * 16 * model.flops_per_token(16))


def test_a_dedicated_server_has_no_rows_of_its_own():
    program = data_parallel(
        SMALL, "server", ranks=9, batch=16, clip=False, dedicated_server=True, update_s=0.1
    )
    worker, server = program.lists
    assert program.class_of.tolist() == [0] * 8 + [1]
    assert {op.root for op in server if isinstance(op, Collective)} == {8}
    assert [op.name for op in server] == ["reduce", "update", "broadcast", "parameters"]
    assert not [op for op in worker if op.name == "update"]
    assert [op.kind for op in worker if isinstance(op, Collective)] == ["reduce", "broadcast"]
    flops = sum(op.flops for op in worker if isinstance(op, Compute))
    assert flops == pytest.approx(2 * 32 * SMALL.padded().flops_per_token())


def test_one_rank_has_nothing_to_communicate():
    for name in live_strategies():
        program = data_parallel(SMALL, name, ranks=1, batch=4)
        assert not collectives(program)
        assert "update" in [op.name for op in program.lists[0]]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"batch": 10}, "batch of 10 does not divide among 4 ranks of 1 micro-batches.*is 8"),
        ({"strategy": "ring"}, "no strategy 'ring'; choose from server, replicated"),
        ({"dtype": "fp12"}, "no dtype 'fp12'.*fp32, bf16"),
        ({"ranks": 0}, "number of ranks to compute with is 0"),
        ({"ranks": 1, "dedicated_server": True}, "number of ranks to compute with is 0"),
        ({"strategy": "sliced", "dedicated_server": True}, "sliced has no server"),
        ({"accumulate": 0}, "micro-batches to compute with is 0"),
        ({"compute_s": float("nan")}, "compute_s is nan"),
        ({"bucket_bytes": 0}, "bucket of 0 bytes"),
        ({"context": 64}, "positions for 1 to 32"),
    ],
)
def test_what_cannot_be_trained_is_refused(wrong, message):
    asked = {"strategy": "server", "ranks": 4, "batch": 8} | wrong
    with pytest.raises(UsageError, match=message):
        data_parallel(SMALL, asked.pop("strategy"), **asked)
