"""The figures of layouts: what a record holds of each."""

from collections.abc import Mapping
from typing import Any

from steptime.plan.asked import Asked
from steptime.plan.why import bound_of
from steptime.predict.estimate import estimate
from steptime.predict.expected import ExpectedError, expected_error
from steptime.predict.layouts import Layouts, ranks_of, tokens_of
from steptime.predict.memory import memory
from steptime.runs.plan import LayoutFigures
from steptime.workloads.spec import StepSpec

_AXES = ("data", "tensor", "pipeline", "expert", "context")
_TOLD = (
    *(*_AXES, "sequence_parallel", "schedule", "interleave", "micro_batches", "rows"),
    *("recompute", "zero", "precision", "reduce_dtype"),
)
_HOUR = 3600.0


def figures_of(asked: Asked, layouts: Layouts, price: float | None) -> list[LayoutFigures]:
    """The figures of each layout; ``price``: of a device for an hour."""
    if not layouts.size:
        return []
    account = estimate(asked.model, layouts, asked.machine)
    kept = memory(asked.model, layouts, asked.software)
    return [
        _figures(
            asked,
            layouts[at : at + 1],
            {name: float(values[at]) for name, values in account.terms.items() if values[at]},
            {name: round(float(values[at])) for name, values in kept.categories.items()},
            price,
        )
        for at in range(layouts.size)
    ]


def _figures(
    asked: Asked,
    layout: Layouts,
    terms: Mapping[str, float],
    kept: Mapping[str, int],
    price: float | None,
) -> LayoutFigures:
    spec = asked.spec(layout[0])
    step, ranks, tokens = sum(terms.values()), int(ranks_of(layout[0])), int(tokens_of(layout)[0])
    rate = asked.model.flops_per_token(asked.tokens) * tokens / step / ranks
    watts = asked.cluster.device.watts
    expected = expected_error(asked.model, layout[0], asked.machine)
    return LayoutFigures(
        gpus=ranks,
        axes={name: int(layout[name][0]) for name in _AXES},
        sequence_parallel=spec.sequence_parallel,
        schedule=spec.schedule,
        interleave=spec.interleave or 1,
        micro_batch=spec.rows or 1,
        micro_batches=spec.micro_batches or 1,
        recompute=spec.recompute,
        zero=spec.zero or 0,
        precision=str(spec.precision),
        step_time_s=step,
        terms=terms,
        bound=bound_of(terms),
        mfu=rate / asked.cluster.device.flops[str(spec.precision)],
        tflops_per_device=rate / 1e12,
        tokens_per_s=tokens / step,
        tokens_per_s_per_device=tokens / step / ranks,
        memory_bytes=sum(kept.values()),
        memory=kept,
        fits=sum(kept.values()) <= asked.cluster.device.memory,
        expected_error=expected.mape if expected else None,
        expected_from=_from(expected) if expected else "",
        cost=None if price is None else price * ranks * step / _HOUR,
        joules=None if not watts else watts * ranks * step,
        options=options_of(spec, asked),
    )


def _from(expected: ExpectedError) -> str:
    """Whose measured steps an expected error is from, in words."""
    others = len(expected.sources) - 1
    more = f" and {others} other source{'s' * (others > 1)}" if others else ""
    return f"by {expected.rows} measured steps near it, of {expected.sources[0]}{more}"


def options_of(spec: StepSpec, asked: Asked) -> str:
    """The options with which ``steptime simulate`` takes the same step."""
    values: dict[str, Any] = {"ranks": spec.ranks}
    values |= asked.said.sizes
    values |= {name: getattr(spec, name) for name in _TOLD}
    if asked.said.tokens_per_row:
        values["tokens"] = asked.tokens
    kept = {n: v for n, v in values.items() if v is not None and v is not False}
    kept = {n: v for n, v in kept.items() if not (n in _AXES and v == 1)}
    kept = {
        n: v for n, v in kept.items() if (n, v) not in (("recompute", "none"), ("interleave", 1))
    }
    return " ".join(
        f"--{name.replace('_', '-')}" + ("" if value is True else f" {value}")
        for name, value in kept.items()
    )
