"""DLRM: recommendations from dense features and tables of embeddings."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import comb

from steptime.workloads.models.family import Family
from steptime.workloads.models.network import Network, unit_of
from steptime.workloads.models.parts import Tensor, Unit, linear


@dataclass(frozen=True, kw_only=True)
class TableNetwork(Network):
    """Tables of embeddings beside MLPs: ``tables`` of ``rows`` × ``width``.

    Its first unit has the tables; then come the units named bottom, which process a sample's dense
    features, the interaction of both, and the top.
    """

    tables: int
    rows: int
    width: int


def dlrm(
    name: str,
    *,
    tables: int = 4,
    rows: int = 80_000,
    features: int = 128,
    bottom: tuple[int, ...] = (128, 128, 128),
    top: tuple[int, ...] = (512, 512, 512, 256, 1),
) -> TableNetwork:
    """The model with ``tables`` of ``rows`` embeddings of the width at ``bottom``'s end.

    All pairs of these vectors interact.
    """
    width = bottom[-1]
    return TableNetwork(
        name=name,
        title="a recommendation model with tables of embeddings",
        source=(
            "Naumov et al., Deep Learning Recommendation Model, arXiv 1906.00091, in the sizes of "
            "spcl's DNN-cpp-proxies"
        ),
        sample="sample",
        sizes=(
            ("tables", f"{tables} × {rows:,} rows × {width}"),
            ("features", features),
            ("bottom", ", ".join(map(str, bottom))),
            ("top", ", ".join(map(str, top))),
        ),
        units=tuple(_units(tables, rows, features, bottom, top)),
        tables=tables,
        rows=rows,
        width=width,
    )


def _units(
    tables: int, rows: int, features: int, bottom: tuple[int, ...], top: tuple[int, ...]
) -> Iterator[Unit]:
    width = bottom[-1]
    held = [Tensor(f"tables.{n}", (rows, width), split=False) for n in range(tables)]
    yield unit_of("tables", held, multiplied=0, activations=tables * width)
    yield from _mlp("bottom", (features, *bottom))
    pairs = comb(tables + 1, 2)  # every two of the tables' vectors and the bottom's
    interactions = width + pairs
    yield unit_of("interaction", (), multiply_adds=pairs * width, activations=interactions)
    yield from _mlp("top", (interactions, *top))


def _mlp(name: str, widths: tuple[int, ...]) -> Iterator[Unit]:
    for number, (inputs, outputs) in enumerate(pairwise(widths)):
        tensors = linear(f"{name}.{number}", inputs, outputs, split=False)
        yield unit_of(
            f"{name}.{number}", tensors, activations=outputs, multiply_adds=inputs * outputs
        )


FAMILY = Family(models={"dlrm": partial(dlrm, "dlrm")})
