"""The passes of a stage, run on a rank: each unit computed where the Program computes it.

The graph of autograd ends at every unit, so that backward goes unit by unit too: what must be
gathered before one or reduced after it needs no hooks.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from steptime.timeline import Phase, Recorder, computing
from steptime.train.parallel.lines import Lines
from steptime.train.parallel.stages import StageModel
from steptime.train.parallel.sums import StageSums
from steptime.workloads.pipelines import Pass
from steptime.workloads.stage import TAGS, Stage
from steptime.world import autograd
from steptime.world.communicator import Work

MicroBatch = tuple[Tensor, Tensor]
"""Tokens and targets, each of shape (rows, tokens of this rank)."""


class _Kept(NamedTuple):
    """A unit's inputs, as leaves of a graph, and what came out; nothing where it is recomputed."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...] = ()


@dataclass(frozen=True, eq=False, kw_only=True)
class LiveStage:
    """What a rank needs to run the passes of its stage.

    ``dtype``: of activations. The weights of the loss make the sum of all gradients that of the
    mean loss over the rows of the step.
    """

    stage: Stage
    model: StageModel
    sums: StageSums
    lines: Lines
    dtype: torch.dtype
    device: torch.device
    recorder: Recorder | None

    def run(self, micro_batches: Sequence[MicroBatch], weight: float) -> Tensor:
        """Forward and backward of all micro-batches, each loss times ``weight``.

        Returns the sum of the losses without it, shape (): 0 where the stage has no head.
        """
        runner = _Runner(self, micro_batches, weight)
        passes = list(self.stage.order.passes(self.stage.number))
        coming = runner.receive(passes[0])
        for number, run in enumerate(passes):
            arrived = _arrived(coming)
            if number + 1 < len(passes):
                coming = runner.receive(passes[number + 1])
            what = f"{run.kind} {self.stage.label(run)}"
            with computing(self.recorder, what, Phase.COMPUTE):
                leaves = runner.compute(run, arrived)
            if leaves is not None:
                runner.send(run, leaves)
        self.lines.flush()
        return runner.loss

    @torch.no_grad()
    def loss(self, micro_batch: MicroBatch) -> Tensor:
        """Mean loss of a micro-batch, shape (): 0 where the stage has no head."""
        runner = _Runner(self, [micro_batch], 1.0)
        shape = self.stage.order.shape
        for chunk in sorted(
            range(shape.chunks), key=lambda one: shape.piece(self.stage.number, one)
        ):
            run = Pass("forward", 0, chunk)
            leaves = runner.compute(run, _arrived(runner.receive(run)), keep=False)
            if leaves is not None:
                runner.send(run, leaves)
        self.lines.flush()
        return runner.loss


class _Runner:
    """One step of a stage: what is kept between its passes."""

    def __init__(self, live: LiveStage, micro_batches: Sequence[MicroBatch], weight: float) -> None:
        self._live = live
        self._micro_batches = micro_batches
        self._weight = weight
        self._kept: dict[tuple[int, int], _Kept] = {}  # by micro-batch and unit
        self._later: dict[tuple[int, int], list[dict[str, Any]]] = {}  # gradients of weights due
        self._handed: dict[tuple[bool, int, int], Tensor] = {}  # from one chunk to another
        self._tables: dict[int, Tensor] = {}  # of a tied model: for the head, then its gradient
        self.loss = torch.zeros((), device=live.device)

    def receive(self, run: Pass) -> tuple[Work, Tensor] | None:
        """Begin to receive what a pass needs of another stage, shape (rows, tokens, channels)."""
        stage = self._live.stage
        source = stage.ends(run).source
        if not source:
            return None
        cut = stage.cut
        shape = (cut.rows, cut.tokens_held // cut.rows, cut.hidden)
        into = torch.empty(shape, dtype=self._live.dtype, device=self._live.device)
        return self._live.lines.receive(into, source, _tag(run)), into

    def send(self, run: Pass, leaves: Tensor) -> None:
        """Begin to send what comes out of a pass."""
        target = self._live.stage.ends(run).target
        assert target  # noqa: S101 - otherwise nothing leaves
        self._live.lines.post(leaves.contiguous(), target, _tag(run))

    def compute(self, run: Pass, x: Tensor | None, *, keep: bool = True) -> Tensor | None:
        """A micro-batch through a chunk; what another stage needs of it, if one does."""
        stage, sums = self._live.stage, self._live.sums
        by = 1 if run.forward else -1
        if stage.ends(run).source == 0:
            x = self._handed.pop((run.forward, stage.piece(run), run.micro_batch))
        places = range(len(stage.chunks[run.chunk]))
        final = run.micro_batch == stage.order.shape.micro_batches - 1
        for place in places if run.forward else reversed(places):
            unit = stage.unit(run.chunk, place)
            module = self._live.model.chunks[run.chunk][place]
            if keep:
                sums.before(unit)
            if run.forward:
                again = stage.recomputes(stage.segments[run.chunk][place])
                x = self._forward(run, unit, module, x, again=again, keep=keep)
            elif run.kind == "backward weight":
                self._backward_weight(run, unit, module)
            else:
                x = self._backward(run, unit, module, x)
            if keep:
                sums.computed(unit, complete=run.releases, final=final)
        target = stage.ends(run).target
        if target == 0 and x is not None:
            self._handed[run.forward, self._live.stage.piece(run) + by, run.micro_batch] = x
        return x if target else None

    def _forward(
        self, run: Pass, unit: int, module: nn.Module, x: Tensor | None, *, again: bool, keep: bool
    ) -> Tensor | None:
        """A unit; ``again``: backward computes it anew, and only its input is kept."""
        tokens, targets = self._micro_batches[run.micro_batch]
        out: Tensor
        model, number = self._live.model, run.micro_batch
        if module is model.embedding:
            out, table = model.embedding(tokens)
            if self._live.stage.gradients.tied:
                self._tables[number] = table
            self._keep(keep, run, unit, _Kept((), (out, table)))
            return out.detach()
        assert x is not None  # noqa: S101 - it came from the unit before, or from another stage
        inputs: tuple[Tensor, ...] = (x.requires_grad_(keep),)
        if module is not model.head:
            with torch.set_grad_enabled(keep and not again):
                out = module(x)
            self._keep(keep, run, unit, _Kept(inputs, () if again else (out,)))
            return out.detach()
        table = self._tables.pop(number, None)
        if table is not None:
            table = table.detach().requires_grad_(keep)
            inputs = (x, table)
        loss = module(x, table, targets)
        self.loss += loss.detach()
        self._keep(keep, run, unit, _Kept(inputs, (loss * self._weight,)))
        return None

    def _keep(self, keep: bool, run: Pass, unit: int, kept: _Kept) -> None:
        if keep:
            self._kept[run.micro_batch, unit] = kept

    def _backward(
        self, run: Pass, unit: int, module: nn.Module, gradient: Tensor | None
    ) -> Tensor | None:
        """The gradient of a unit's input from that of its output, and those of its weights."""
        inputs, outputs = self._kept.pop((run.micro_batch, unit))
        if not outputs:
            outputs = (module(*inputs),)
        gradients: list[Tensor] | None = None if gradient is None else [gradient]
        if module is self._live.model.embedding:
            table = self._tables.pop(run.micro_batch, None)
            assert gradients  # noqa: S101 - of the block behind it
            if table is None:
                outputs = outputs[:1]
            else:
                gradients.append(table)
            torch.autograd.backward(outputs, gradients)
            return None
        if run.kind == "backward":
            torch.autograd.backward(outputs, gradients)
        else:
            found = autograd.backward_input(outputs, gradients, inputs, module.parameters())
            self._later[run.micro_batch, unit] = found
        x, *table_used = inputs
        for one in table_used:
            assert one.grad is not None  # noqa: S101 - the head multiplies with it
            self._tables[run.micro_batch] = one.grad
        return x.grad

    def _backward_weight(self, run: Pass, unit: int, module: nn.Module) -> None:
        if later := self._later.pop((run.micro_batch, unit), None):
            autograd.backward_weight(module.parameters(), later)


def _tag(run: Pass) -> int:
    return TAGS["forward" if run.forward else "backward"]


def _arrived(coming: tuple[Work, Tensor] | None) -> Tensor | None:
    if coming is None:
        return None
    work, tensor = coming
    work.wait()
    return tensor
