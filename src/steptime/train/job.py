"""Job: one training, ready to run on this rank, and the measurements it leaves."""

import gc
import hashlib
import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from steptime.collectives.call_bytes import Traffic
from steptime.strategies import Strategy
from steptime.train.asked import shared_step
from steptime.train.config import suitable_learning_rate
from steptime.train.data import Batches
from steptime.train.figures import RankRecord
from steptime.train.live import Live
from steptime.train.options import JobOptions
from steptime.train.precision import precision_of
from steptime.train.tokens import Tokens, check_vocabulary, load_tokens
from steptime.train.training import Training, build_training, new_model
from steptime.train.weights import load_weights, weights_at
from steptime.workloads.models import Transformer
from steptime.world.clock import recorder_for
from steptime.world.disturbances import mark_faults
from steptime.world.wire import flows, wire_traffic

_FAMILIES = {True: "GPT-2", False: "Llama"}  # by whether positions are learned


@dataclass(frozen=True)
class Job:
    """The options of a training, with this rank's model, tokens and device."""

    options: JobOptions
    config: Transformer
    context: int  # tokens a row, at most those of the model
    tokens: Tokens
    device: torch.device

    @property
    def title(self) -> str:
        """The model and its data in words, the model's name last."""
        return (
            f"{_FAMILIES[self.config.architecture.learned_positions]} of "
            f"{self.config.padded().parameters:,} parameters on {self.tokens.description}; "
            f"{self.config.name}"
        )

    @property
    def tokens_per_step(self) -> int:
        """Tokens that all ranks together train on in one step."""
        return self.options.train.batch * self.context


def prepare_job(options: JobOptions, *, on_gpu: bool, stored: Transformer | None = None) -> Job:
    """Load what this rank needs; ``stored`` are the dimensions of weights to start from.

    Raises UsageError for data that cannot be used, or that the stored model has no tokens for.
    """
    tokens = load_tokens(options.data)
    config = stored or options.model.config(tokens.vocabulary)
    check_vocabulary(tokens, config.vocabulary)
    device = torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")
    return Job(options, config, options.model.row(config), tokens, device)


def start_training(job: Job, strategy: Strategy, *, timed: bool = True) -> Live:
    """This rank's part of the job, as a replica or in a model that ranks share.

    ``timed``: record a timeline.
    """
    shared = shared_step(strategy.name, job.options, job.config, ranks=dist.get_world_size())
    if shared is None:
        return replica(job, strategy, timed=timed)
    from steptime.train.parallel.hybrid import hybrid_training

    return hybrid_training(job, shared, timed=timed)


def replica(job: Job, strategy: Strategy, *, timed: bool = True) -> Training:
    """This rank's part of the job under a strategy; ``timed``: record a timeline."""
    options = job.options
    batches = Batches(
        tokens=job.tokens,
        context=job.context,
        batch=options.train.batch,
        rank=dist.get_rank(),
        ranks=dist.get_world_size(),
        seed=options.seed,
    )
    model = new_model(job.config, options.seed, job.device)
    if options.model.init:
        load_weights(model, weights_at(options.model.init))
    return build_training(
        model,
        batches,
        strategy,
        precision_of(options.precision, options.train.reduce_dtype, options.train.rounding),
        options.train,
        peak_learning_rate=options.train.lr or suitable_learning_rate(job.config),
        steps=options.steps,
        compiled=options.compiled,
        recorder=recorder_for(job.device) if timed else None,
    )


@dataclass(frozen=True)
class Counters:
    """Bytes moved by a rank so far: computed from its calls, and measured on its sockets."""

    traffic: Traffic
    wire: Traffic | None


def read_counters(training: Live) -> Counters:
    """The counters at a point that every rank has reached, with no call in progress."""
    training.settle()
    dist.barrier()
    return Counters(training.traffic, wire_traffic())


def passed_over(before: Counters, begin: Counters, end: Counters) -> Counters:
    """``before`` as if nothing had moved from ``begin`` to ``end``."""
    wire = None
    if before.wire and begin.wire and end.wire:
        wire = before.wire.plus(end.wire.minus(begin.wire))
    return Counters(before.traffic.plus(end.traffic.minus(begin.traffic)), wire)


def bring_home(
    training: Live, losses: Sequence[Tensor], before: Counters, timed_from: int
) -> RankRecord:
    """The record of a training; ``before``: the counters before step ``timed_from``."""
    after = read_counters(training)
    assert training.recorder  # noqa: S101 - only a timed training is brought home
    mark_faults(training.recorder)
    return RankRecord(
        rank=training.rank,
        host=platform.node(),
        timed_from=timed_from,
        steps=training.steps - timed_from,
        timeline=training.recorder.timeline(training.rank, training.ranks),
        losses=torch.stack(list(losses)).tolist(),
        traffic=after.traffic.minus(before.traffic),
        wire=after.wire.minus(before.wire) if after.wire and before.wire else None,
        parameter_hash=parameter_hash(training),
        flows=flows(),
    )


def gather(record: RankRecord) -> list[RankRecord]:
    """The records of all ranks, in order, on rank 0; an empty list on the others."""
    everyone: list[RankRecord] | None = None
    if dist.get_rank() == 0:
        everyone = [record] * dist.get_world_size()
    dist.gather_object(record, everyone)
    return everyone or []


def parameter_hash(training: Live) -> str:
    """A digest of the parameters, bit by bit; all ranks call it.

    That of the whole model, the same on all, where all that hold the same part of it hold the same
    bits; else that of this rank's part.
    """
    digest = hashlib.blake2b(digest_size=16)
    for held in training.held():
        digest.update(held.detach().cpu().view(torch.uint8).numpy().data)
    own = digest.hexdigest()
    if not training.place:
        return own
    parts: list[tuple[tuple[int, ...], str]] = [(training.place, own)] * training.ranks
    dist.all_gather_object(parts, (training.place, own))
    different = sorted(set(parts))
    if len(different) > len({place for place, _ in parts}):
        return own
    return hashlib.blake2b(repr(different).encode(), digest_size=16).hexdigest()


@contextmanager
def no_collection() -> Iterator[None]:
    """Disable the garbage collector in the block: its pauses would count to the steps."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
