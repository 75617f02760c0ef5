"""Training: the objects of one rank's training, and how they are put together."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from steptime.collectives.call_bytes import Traffic
from steptime.strategies import Strategy
from steptime.timeline import Phase, Recorder, computing, recording
from steptime.train.data import Batches, validation_batches
from steptime.train.flat import FlatModel, flat_weights, flatten, own_buffers, shared_buffers
from steptime.train.fp8 import emulate_fp8
from steptime.train.keeping.pieces import whole
from steptime.train.keeping.state import Owned, State, Target
from steptime.train.keeping.state_file import FIELDS
from steptime.train.layout import plan_layout
from steptime.train.model import Decoder, compile_units
from steptime.train.optimizer import ShardedAdamW
from steptime.train.options import TrainOptions
from steptime.train.precision import Precision
from steptime.train.schedule import learning_rate
from steptime.train.sync import GradientSync
from steptime.train.tensors import mean_over_ranks, to_device
from steptime.train.tokens import Tokens
from steptime.workloads.models import Transformer
from steptime.world.communicator import Communicator

_SHORTEST_WARMUP = 20  # steps; AdamW's first ones follow the signs of single gradients


@dataclass(frozen=True, kw_only=True)
class Training:
    """All that the training loop works with, on one rank."""

    config: Transformer
    model: Decoder
    flat: FlatModel
    optimizer: ShardedAdamW
    strategy: Strategy
    sync: GradientSync
    comm: Communicator
    batches: Batches
    precision: Precision
    options: TrainOptions
    peak_learning_rate: float
    steps: int

    @property
    def device(self) -> torch.device:
        """The model's device."""
        return self.flat.parameters.device

    @property
    def partitioned(self) -> bool:
        """Whether some rank updates only a part of the parameters, or none."""
        ranks = self.comm.ranks
        return any(
            self.strategy.owned(bucket, ranks - 1, ranks) != bucket
            for bucket in self.flat.layout.buckets
        )

    @property
    def recorder(self) -> Recorder | None:
        """What notes the times of its steps."""
        return self.comm.recorder

    @property
    def rank(self) -> int:
        """This rank."""
        return self.comm.rank

    @property
    def ranks(self) -> int:
        """How many there are, each a replica."""
        return self.comm.ranks

    @property
    def traffic(self) -> Traffic:
        """Bytes that all calls so far made this rank send and receive."""
        return self.comm.traffic

    @property
    def writes(self) -> bool:
        """Whether this rank owns what no other does, or is the first of those that own the same."""
        return self.rank == 0 or self.partitioned

    def learning_rate(self, step: int) -> float:
        """Learning rate of a step, counted from 0."""
        return rate_of_step(self.options, step, self.steps, self.peak_learning_rate)

    def gradients(self, batch: int, scale: float) -> Tensor:
        """Accumulate the gradients of all micro-batches; the mean loss of this rank, shape ()."""
        recorder, parts = self.recorder, self.options.accumulate
        with recording(recorder, "data", "batch", Phase.OTHER):
            inputs, targets = (to_device(rows, self.device) for rows in self.batches.at(batch))
        total = torch.zeros((), device=self.device)
        weight = scale / (self.ranks * parts)
        micro_batches = zip(inputs.chunk(parts), targets.chunk(parts), strict=True)
        for index, (x, y) in enumerate(micro_batches):
            self.sync.expect(first=index == 0, last=index == parts - 1)
            with computing(recorder, "forward", Phase.COMPUTE):
                loss = self.model(x, y)
            with computing(recorder, "backward", Phase.COMPUTE):
                (loss * weight).backward()
            total += loss.detach()
        self.sync.reduce()
        return total / parts

    def squared_norm(self) -> Tensor:
        """Sum of squares of all gradients of all ranks, shape (), fp64."""
        squares = self.optimizer.squared_norm()
        if self.partitioned:
            self.comm.all_reduce(squares).wait()
        return squares

    def update(self, learning_rate: float, divisor: Tensor | None) -> None:
        """Update bucket by bucket what this rank owns, and share it."""
        for bucket in range(len(self.flat.layout.buckets)):
            self.optimizer.update(bucket, learning_rate, divisor)
            self.sync.share(bucket)

    def settle(self) -> None:
        """Block until this rank holds all updated parameters."""
        self.sync.settle()

    @torch.no_grad()
    def held_out_loss(self, tokens: Tokens, batches: int) -> float:
        """Mean loss in nats a token over the first ``batches`` micro-batches of held-out text."""
        self.settle()
        found = validation_batches(
            tokens,
            context=self.batches.context,
            batch=self.batches.batch // self.options.accumulate,
            rank=self.rank,
            ranks=self.ranks,
            steps=batches,
        )
        losses = [self.model(*(to_device(rows, self.device) for rows in pair)) for pair in found]
        return mean_over_ranks(torch.stack(losses).mean())

    def state(self) -> State:
        """What a checkpoint needs of this rank, which computes with the whole model."""
        slots = self.flat.layout.slots
        computed = [
            Target(whole(slot.name, slot.shape), 0, self.flat.parameters[slot.span.slice])
            for slot in slots
        ]
        starts = [slot.offset for slot in slots]
        owned = []
        for segment in (one for bucket in self.optimizer.segments for one in bucket):
            number = bisect_right(starts, segment.offset) - 1
            fields = {field: getattr(segment, field) for field in FIELDS}
            start = segment.offset - starts[number]
            owned.append(Owned(computed[number].part, start, fields, segment.step))
        return State(owned, computed)

    def weights(self) -> Mapping[str, Tensor] | None:
        """All weights by their names, on the first rank."""
        return dict(self.model.named_parameters()) if self.rank == 0 else None

    @property
    def place(self) -> tuple[int, ...]:
        """The same of all ranks: each holds the whole model."""
        return ()

    def held(self) -> Iterable[Tensor]:
        """The parameters, all in one."""
        return [self.flat.parameters]


def rate_of_step(options: TrainOptions, step: int, steps: int, peak: float) -> float:
    """Learning rate of a step, counted from 0, of so many."""
    warmup = options.lr_warmup
    return learning_rate(
        options.lr_schedule,
        step,
        steps,
        peak,
        max(_SHORTEST_WARMUP, steps // 10) if warmup is None else warmup,
        final=0.1,
    )


def build_training(
    model: Decoder,
    batches: Batches,
    strategy: Strategy,
    precision: Precision,
    options: TrainOptions,
    *,
    peak_learning_rate: float,
    steps: int,
    compiled: bool = False,
    recorder: Recorder | None = None,
) -> Training:
    """Set up ``model`` for ``strategy`` on this rank; its parameters move into a flat buffer."""
    comm = Communicator(recorder)
    tensors = [(name, tuple(p.shape)) for name, p in model.named_parameters()]
    element = torch.empty(0, dtype=precision.reduce).element_size()
    layout = plan_layout(
        tensors, comm.ranks, options.bucket // element if strategy.overlapped else None
    )
    weights = flat_weights(model, layout)
    buffers = shared_buffers if strategy.in_shared_memory and comm.ranks > 1 else own_buffers
    flat = flatten(model, layout, *buffers(weights, precision))
    owned = [strategy.owned(bucket, comm.rank, comm.ranks) for bucket in layout.buckets]
    optimizer = ShardedAdamW(
        flat, weights, owned, options.weight_decay, precision, seed=batches.seed
    )
    if precision.fp8:
        emulate_fp8(model)
    if compiled:
        compile_units(model)
    return Training(
        config=model.config,
        model=model,
        flat=flat,
        optimizer=optimizer,
        strategy=strategy,
        sync=GradientSync(model, model.units(), flat, strategy, comm),
        comm=comm,
        batches=batches,
        precision=precision,
        options=options,
        peak_learning_rate=peak_learning_rate,
        steps=steps,
    )


def new_model(config: Transformer, seed: int, device: torch.device) -> Decoder:
    """A model whose initial weights depend on the seed alone."""
    return Decoder(config, torch.Generator().manual_seed(seed)).to(device)
