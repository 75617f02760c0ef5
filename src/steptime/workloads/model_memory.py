"""Memory of a rank in a step, computed from the model and how it is divided.

Parameters, gradients and optimizer state as in ZeRO (Rajbhandari et al., arXiv 1910.02054, section
3); activations as in Korthikanti et al. (arXiv 2205.05198, section 4) but for attention's scores:
it is fused, as it is priced, and keeps none (FlashAttention, arXiv 2205.14135). What frameworks
that keep them need is told by ``predict.memory``.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

from steptime.workloads.context import keys_bytes
from steptime.workloads.kept import kept_of_token
from steptime.workloads.mesh import Mesh
from steptime.workloads.models import Model, Transformer, Unit
from steptime.workloads.precision import element_bytes, state_bytes
from steptime.workloads.segment import Cut, Recompute
from steptime.workloads.stage import Stage
from steptime.workloads.sync import Sync, sync_named

_SHARED_LOGIT_BYTES = 4  # ranks that share the words keep their chances in fp32


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
            return self._block(unit)
        if unit.name == "embedding":
            return cut.tokens_held * model.hidden * model.architecture.dropout
        # Else the logits stay as they were multiplied, or their gradient is made in their place.
        of_logit = _SHARED_LOGIT_BYTES if cut.mesh.tensor > 1 else element_bytes(cut.dtype)
        logits = cut.tokens * model.vocabulary * of_logit // cut.mesh.tensor
        return 2 * cut.activation_bytes(cut.tokens_held) + logits

    def passing(self, units: Iterable[Unit]) -> int:
        """Bytes of the largest block in ``units`` while backward recomputes it."""
        blocks = (self._block(unit) - self.of_unit(unit) for unit in units if _is_block(unit))
        return max(blocks, default=0)

    def _block(self, unit: Unit) -> int:
        """Bytes of a block of which nothing is recomputed."""
        cut, each = self.cut, kept_of_token(self.model, unit)
        width = element_bytes(cut.dtype)
        others_keys = keys_bytes(cut) * (cut.mesh.context - 1) // cut.mesh.context
        return (
            cut.tokens_held * (each.whole * width + each.mask_bytes)
            + cut.tokens * each.split * width // cut.mesh.tensor
            + cut.tokens * each.routed * width
            + others_keys
        )


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
