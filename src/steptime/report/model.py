"""A model in the terminal and as JSON: its dimensions, and what is computed from them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from steptime.units import format_bytes, format_flops
from steptime.workloads.models import Model, Transformer, Unit, model_named, model_names
from steptime.workloads.precision import element_bytes

_ASIDE = "dim"
_DTYPES = ("fp32", "bf16")


@dataclass(frozen=True)
class Layers:
    """So many units of one shape, the ``first`` to the ``last``; others may lie between them."""

    first: Unit
    last: Unit
    count: int

    @property
    def name(self) -> str:
        """What they are called."""
        return self.first.name if self.count == 1 else f"{self.first.name} … {self.last.name}"


def layers(model: Model) -> list[Layers]:
    """The units of a model in the order in which their kinds are met, alike ones folded."""

    def like(unit: Unit) -> object:
        shapes = tuple(tensor.shape for tensor in unit.tensors)
        return shapes, unit.forward_flops(model.context), unit.activations

    folded: dict[object, list[Unit]] = {}
    for unit in model.units:
        folded.setdefault(like(unit), []).append(unit)
    return [Layers(units[0], units[-1], len(units)) for units in folded.values()]


def print_models(console: Console) -> None:
    """Print all models there are, one a line."""
    table = _table(["model", "parameters", "forward", "of a sample"], right=(1, 2))
    for name in model_names():
        model = model_named(name)
        forward = _flop(_forward_flops(model))
        table.add_row(Text(name, "bold"), f"{model.parameters:,}", forward, _sample(model))
    console.print(table)
    console.print(
        Text("Computed from dimensions; steptime proxy describe MODEL shows them.", _ASIDE)
    )


def print_model(console: Console, model: Model) -> None:
    """Print a model's dimensions, parameters, FLOP and bytes, as a whole and layer by layer."""
    console.print(Text(f"{model.name}: {model.title}", "bold"))
    console.print(Text(model.source, _ASIDE))
    console.print()
    facts = Table.grid(padding=(0, 2))
    facts.add_column(no_wrap=True)
    for label, words in _facts(model):
        facts.add_row(Text(label, _ASIDE), words)
    console.print(facts)
    console.print()
    titles = ["layer", "number", "parameters", "gradient", "forward", "leaving"]
    table = _table(titles, right=(1, 2, 3, 4, 5))
    for row in layers(model):
        unit = row.first
        table.add_row(
            row.name,
            f"{row.count}",
            f"{unit.parameters:,}",
            format_bytes(unit.parameters * element_bytes("fp32")),
            _flop(model.context * unit.forward_flops(model.context)),
            format_bytes(model.context * unit.activations * element_bytes("fp32")),
        )
    console.print(table)
    console.print(
        Text(
            f"Figures of one layer and {_sample(model)}, bytes of fp32, all computed from the "
            "dimensions. A multiply-add is 2 FLOP; leaving is what a layer hands on forward.",
            _ASIDE,
        )
    )


def record(model: Model) -> dict[str, Any]:
    """A model for JSON: FLOP and activations are those of one sample."""
    forward = _forward_flops(model)
    return {
        "name": model.name,
        "title": model.title,
        "reference": model.source,
        "source": "computed",
        "dimensions": dict(model.dimensions),
        "sample": model.sample,
        "tokens_per_sample": model.context if isinstance(model, Transformer) else None,
        "parameters": model.parameters,
        "active_parameters": model.active_parameters,
        "forward_flops": forward,
        "backward_flops": 2 * forward,
        "gradient_bytes": _bytes(model.parameters),
        "layers": [_layers_record(row, model) for row in layers(model)],
    }


def records() -> list[dict[str, Any]]:
    """All models for JSON, without their layers."""
    models = (record(model_named(name)) for name in model_names())
    return [{field: value for field, value in m.items() if field != "layers"} for m in models]


def _layers_record(row: Layers, model: Model) -> dict[str, Any]:
    unit = row.first
    forward = model.context * unit.forward_flops(model.context)
    activations = model.context * unit.activations
    return {
        "name": row.name,
        "alike": row.count,
        "tensors": len(unit.tensors),
        "parameters": unit.parameters,
        "gradient_bytes": _bytes(unit.parameters),
        "forward_flops": forward,
        "backward_flops": 2 * forward,
        "activations": activations,
        "activation_bytes": _bytes(activations),
    }


def _facts(model: Model) -> Iterator[tuple[str, str]]:
    for name, value in model.dimensions.items():
        yield name.replace("_", " "), f"{value:,}" if isinstance(value, int) else value
    parameters = f"{model.parameters:,}"
    if model.active_parameters != model.parameters:
        parameters += f", of which a token meets {model.active_parameters:,}"
    yield "parameters", parameters
    gradients = _bytes(model.parameters).items()
    yield "gradient", ", ".join(f"{format_bytes(n)} in {dtype}" for dtype, n in gradients)
    forward = _forward_flops(model)
    yield "forward", f"{_flop(forward)} {_sample(model)}"
    yield "backward", f"{_flop(2 * forward)}, twice the forward"


def _forward_flops(model: Model) -> float:
    """FLOP of the forward of one sample: of a transformer, a row of all its positions."""
    return model.context * model.flops_per_token() / 3


def _sample(model: Model) -> str:
    if isinstance(model, Transformer):
        return f"a row of {model.context:,} tokens"
    return f"{'an' if model.sample[0] in 'aeiou' else 'a'} {model.sample}"


def _flop(count: float) -> str:
    return f"{count:,.0f} FLOP" if count < 1e6 else format_flops(count).removesuffix("/s")


def _bytes(elements: int) -> dict[str, int]:
    return {dtype: elements * element_bytes(dtype) for dtype in _DTYPES}


def _table(titles: list[str], right: tuple[int, ...]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for place, title in enumerate(titles):
        table.add_column(title, justify="right" if place in right else "left", no_wrap=True)
    return table
