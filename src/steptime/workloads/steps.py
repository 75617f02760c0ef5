"""Steps of models that need a generator of their own.

``hybrid`` divides transformers, and ``data_parallel`` replicates any model; networks on volumes are
divided in space and those with tables of embeddings spread the tables.
"""

from collections.abc import Callable, Iterable
from functools import partial

from steptime.errors import UsageError
from steptime.program import Program
from steptime.workloads.mesh import DATA, TENSOR, Mesh
from steptime.workloads.model_memory import Memory
from steptime.workloads.models import Model, Unit
from steptime.workloads.models.families.cosmoflow import VolumeNetwork
from steptime.workloads.models.families.dlrm import TableNetwork
from steptime.workloads.precision import element_bytes, state_bytes
from steptime.workloads.spatial import spatial
from steptime.workloads.sync import Sync, sync_named
from steptime.workloads.tables import tables

DEFAULT_STRATEGY = "overlapped"
"""The default strategy: as the C++ proxies and the references."""


def has_own_step(model: Model, *, shared: bool) -> bool:
    """Whether ``own_step`` makes the step of a model; ``shared``: whether ranks are to divide it.

    Tables of embeddings are always spread, a volume is divided on request.
    """
    return isinstance(model, TableNetwork) or (shared and isinstance(model, VolumeNetwork))


def own_step(
    model: Model,
    mesh: Mesh,
    *,
    batch: int,
    accumulate: int = 1,
    dtype: str = "fp32",
    reduce_dtype: str = "fp32",
    strategy: str = DEFAULT_STRATEGY,
) -> tuple[Program, tuple[Memory, ...]]:
    """The step of a model that ``has_own_step``, and what the rank that keeps most of it keeps.

    ``batch`` samples of all ranks together in ``accumulate`` micro-batches. Raises UsageError where
    the mesh has an axis that the model has no use for, and as ``spatial`` and ``tables`` do.
    """
    axes = (TENSOR, DATA) if isinstance(model, VolumeNetwork) else (DATA,)
    for axis, size in mesh.sizes.items():
        if size > 1 and axis not in axes:
            raise UsageError(
                f"{model.name} is shared along {' and '.join(axes)} alone, not in {size} along "
                f"{axis}: leave {axis} out"
            )
    make: Callable[..., Program]
    if isinstance(model, VolumeNetwork):
        make = partial(spatial, model, tensor=mesh.tensor, data=mesh.data)
    elif isinstance(model, TableNetwork):
        make = partial(tables, model, ranks=mesh.ranks)
    else:
        raise UsageError(f"{model.name} has no way of its own to be shared: choose another model")
    program = make(
        batch=batch,
        accumulate=accumulate,
        dtype=dtype,
        reduce_dtype=reduce_dtype,
        strategy=strategy,
    )
    samples = batch // (mesh.data * accumulate)
    memory = _memory(model, mesh, samples, dtype, reduce_dtype, sync_named(strategy))
    return program, (memory,)


def _memory(
    model: VolumeNetwork | TableNetwork,
    mesh: Mesh,
    samples: int,
    dtype: str,
    reduce_dtype: str,
    sync: Sync,
) -> Memory:
    """Activations are counted where they leave a unit; tables have no optimizer state.

    What a rank looks up and exchanges is there for all ranks' samples, for a while, and so are the
    gradients of it.
    """
    width, of_gradient = element_bytes(dtype), element_bytes(reduce_dtype)
    activations = samples * sum(unit.activations for unit in model.units) // mesh.tensor
    held, table, passing = _held(model, mesh), 0, 0
    if isinstance(model, TableNetwork):
        columns = -(-model.tables * model.width // mesh.ranks)
        table = model.rows * columns
        passing = mesh.ranks * samples * columns
    elements = sum(count for count, _ in held)
    owned = sum(sync.owned(count, ranks, is_root=False) for count, ranks in held)
    return Memory(
        parameters=(elements + table) * width,
        gradients=elements * of_gradient,
        optimizer=owned * state_bytes(dtype),
        passing=2 * passing * width,
        activations=activations * width,
    )


def _held(model: VolumeNetwork | TableNetwork, mesh: Mesh) -> list[tuple[int, int]]:
    """Elements of layers that a rank holds, and how many ranks hold the same."""

    def size(units: Iterable[Unit]) -> int:
        return sum(unit.parameters for unit in units)

    if isinstance(model, TableNetwork):
        return [(size(model.units[1:]), mesh.ranks)]
    cut = len(model.convolutions)
    return [
        (size(model.units[:cut]), mesh.ranks),
        (size(model.units[cut:]) // mesh.tensor, mesh.data),
    ]
