"""Memory of a rank in a step, computed from the model and how it is divided.

Parameters, gradients and optimizer state as in ZeRO (Rajbhandari et al., arXiv 1910.02054, section
3); activations as in Korthikanti et al. (arXiv 2205.05198, section 4), of any width of the MLP and
any number of key heads, and without dropout's masks where a model has none. Attention with dropout
is taken to keep its scores unless they are recomputed, as that paper's does; attention without is
fused and keeps none (FlashAttention, arXiv 2205.14135).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property

from steptime.workloads.context import keys_bytes
from steptime.workloads.mesh import Mesh
from steptime.workloads.models import Model, Transformer, Unit
from steptime.workloads.precision import element_bytes, state_bytes
from steptime.workloads.segment import Cut, Recompute
from steptime.workloads.stage import Stage
from steptime.workloads.sync import Sync, sync_named

_LOGIT_BYTES = 4  # the loss is computed in fp32


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Bytes that a rank keeps.

    ``optimizer``: two moments and, beside parameters of another dtype, master weights in fp32.
    ``passing``: temporary buffers: gathered parameters, gradients to be scattered. ``activations``:
    of as many micro-batches as are in flight at a time, at most.
    """

    parameters: int
    gradients: int
    optimizer: int
    passing: int
    activations: int

    @property
    def total(self) -> int:
        """The sum of all."""
        return sum(getattr(self, field.name) for field in fields(self))


@dataclass(frozen=True, kw_only=True)
class Activations:
    """Bytes of activations that a rank keeps of one micro-batch for backward."""

    model: Transformer
    cut: Cut
    recompute: Recompute = "none"

    def of_unit(self, unit: Unit) -> int:
        """Bytes of a block, the embedding or the head."""
        model, cut = self.model, self.cut
        if _is_block(unit):
            if self.recompute == "full":
                return cut.activation_bytes(cut.tokens_held)
            return self._all_but_scores(unit) + (self._scores if self.recompute == "none" else 0)
        if unit.name == "embedding":
            return cut.tokens_held * model.hidden * model.architecture.dropout
        logits = cut.tokens * model.vocabulary * _LOGIT_BYTES // cut.mesh.tensor
        return 2 * cut.activation_bytes(cut.tokens_held) + logits

    def passing(self, units: Iterable[Unit]) -> int:
        """Bytes of the largest block in ``units`` while backward recomputes it."""
        return max(
            self._all_but_scores(unit) + self._scores - self.of_unit(unit)
            for unit in units
            if _is_block(unit)
        )

    def _all_but_scores(self, unit: Unit) -> int:
        """Inputs of norms and products; within a half tensor-parallel ranks divide them."""
        model, cut = self.model, self.cut
        width = element_bytes(cut.dtype)
        routed = any(tensor.expert for tensor in unit.tensors)
        mixes = 2 * model.top_k if routed else 0  # tokens sent to experts, and back
        whole = model.hidden * (4 * width + 2 * model.architecture.dropout)
        whole += sum(part.kept_whole for part in unit.parts) * width
        split = sum(part.kept for part in unit.parts) * width
        others_keys = keys_bytes(cut) * (cut.mesh.context - 1) // cut.mesh.context
        return (
            cut.tokens_held * whole
            + cut.tokens * split // cut.mesh.tensor
            + cut.activation_bytes(cut.tokens * mixes)
            + others_keys
        )

    @cached_property
    def _scores(self) -> int:
        """Attention's scores: of every head, for each token and each token it attends to."""
        model, cut = self.model, self.cut
        if not model.architecture.dropout:
            return 0
        each = 2 * element_bytes(cut.dtype) + 1
        seen = min(cut.row, model.window or cut.row)
        return cut.tokens * seen * model.heads * each // cut.mesh.tensor


def _is_block(unit: Unit) -> bool:
    return any(part.attending for part in unit.parts)


def memory_of_stage(model: Transformer, stage: Stage) -> Memory:
    """The memory of a rank of a pipeline stage of ``model``, at the peak of its schedule."""
    plan = stage.gradients
    pools = [([bucket.elements for bucket in pool.buckets], pool.ranks) for pool in plan.pools]
    kept = Activations(model=model, cut=stage.cut, recompute=stage.recompute)
    of_chunk = [sum(map(kept.of_unit, chunk)) for chunk in stage.chunks]
    held = most = 0
    for run in stage.order.passes(stage.number):
        held += of_chunk[run.chunk] * (run.forward - run.releases)
        most = max(most, held)
    return _memory(
        pools,
        plan.sync,
        plan.dtype,
        plan.reduce_dtype,
        most + kept.passing(plan.units),
        tied=plan.tied,
    )


def memory_of_replica(
    model: Model,
    strategy: str,
    *,
    ranks: int,
    rows: int,
    row: int,
    dtype: str = "fp32",
    reduce_dtype: str = "fp32",
) -> Memory:
    """The largest memory of a rank in data parallelism, in micro-batches of ``rows``.

    Of a model without rows of tokens activations are counted where they leave a unit.

    Raises UsageError where there is no such strategy or dtype.
    """
    laid_out, sync = model.padded(), sync_named(strategy)
    sizes = [unit.parameters for unit in laid_out.units]
    if isinstance(laid_out, Transformer):
        cut = Cut(
            mesh=Mesh(data=ranks),
            rows=rows,
            row=row,
            hidden=laid_out.hidden,
            kv_width=laid_out.kv_width,
            experts=laid_out.experts,
            top_k=laid_out.top_k,
            dtype=dtype,
        )
        kept = sum(map(Activations(model=laid_out, cut=cut).of_unit, laid_out.units))
        tied = laid_out.architecture.tied
    else:
        kept = rows * element_bytes(dtype) * sum(unit.activations for unit in laid_out.units)
        tied = False
    return _memory([(sizes, ranks)], sync, dtype, reduce_dtype, kept, tied=tied)


def _memory(
    pools: Iterable[tuple[Sequence[int], int]],
    sync: Sync,
    dtype: str,
    reduce_dtype: str,
    activations: int,
    *,
    tied: bool,
) -> Memory:
    """Memory from the elements of each bucket of a pool, and how many ranks share each bucket."""
    width, of_gradient = element_bytes(dtype), element_bytes(reduce_dtype)
    parameters = gradients = optimizer = passing = 0
    for sizes, ranks in pools:
        elements = sum(sizes)
        parameters += elements * width // (ranks if sync.zero >= 3 else 1)
        gradients += elements * of_gradient // (ranks if sync.zero >= 2 else 1)
        optimizer += sync.owned(elements, ranks, is_root=True) * state_bytes(dtype)
        if sync.zero >= 2:
            passing += max(sizes) * of_gradient
        if sync.zero >= 3:
            passing += (sum(sorted(sizes)[-2:]) + tied * sizes[0]) * width
    return Memory(
        parameters=parameters,
        gradients=gradients,
        optimizer=optimizer,
        passing=passing,
        activations=activations,
    )
