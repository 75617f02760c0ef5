"""Fits the parameters of frameworks anew from the shipped rows of measured steps.

    python benchmarks/fit_predictions.py            what is shipped, what the rows give, the errors
    python benchmarks/fit_predictions.py --write    the same, and writes it into their files
    python benchmarks/fit_predictions.py nanotron   of one framework alone

For each framework a few parameters, named in FITTED, are those that make the squared error of the
logarithm of its rows' times least, large errors counting less (soft L1); a weak pull keeps what the
rows do not tell near where it began. Nothing is random. Each model's error with its own rows left
out of the fit stands beside.
"""

import argparse
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import least_squares

import steptime.predict.software
from steptime.plan.express import Case, expressed
from steptime.plan.rows import shipped_rows
from steptime.predict import calls, passes
from steptime.predict.estimate import estimate
from steptime.predict.machine import Machine
from steptime.predict.software import Software, software_file, software_named
from steptime.simulate.kernels import attention, product_seconds
from steptime.simulate.nccl import call_seconds
from steptime.workloads.models import Transformer

FOLDER = Path(steptime.predict.software.__file__).parent

RANGES = {
    "passes": (1.0, 2.0, 8.0),
    "inner_passes": (1.0, 2.0, 12.0),
    "cast_passes": (0.5, 1.0, 12.0),
    "score_passes": (2.0, 6.0, 30.0),
    "attention_rate": (0.3, 0.9, 1.5),
    "loss_passes": (1.0, 8.0, 40.0),
    "optimizer_bytes": (12.0, 40.0, 120.0),
    "held_bytes": (2.0, 30.0, 300.0),
    "block_s": (1e-4, 2e-3, 2e-2),
    "call_s": (2e-6, 4e-5, 2e-3),
    "step_s": (1e-4, 1e-2, 0.3),
    "stall_s": (1e-6, 1e-4, 2e-3),
    "data_overlap": (0.02, 0.6, 0.98),
    "tensor_overlap": (0.02, 0.3, 0.9),
    "message_overlap": (0.02, 0.5, 0.98),
    "contention": (0.02, 0.2, 0.6),
    "jitter": (1e-4, 5e-3, 8e-2),
    "data_calls": (1.0, 6.0, 40.0),
}
"""The least that a parameter can be, where the fit begins, and the most, in its own unit."""

_ON_THE_DEVICE = ("passes", "inner_passes", "loss_passes", "optimizer_bytes")
_HOST = ("block_s", "call_s", "step_s")
FITTED: Mapping[str, tuple[str, ...]] = {
    "nanotron": (*_ON_THE_DEVICE, *_HOST, "held_bytes", "stall_s", "data_overlap", "jitter"),
    "llm-foundry": (*_ON_THE_DEVICE, *_HOST, "attention_rate", "data_overlap", "jitter"),
    "megatron-deepspeed": (*_ON_THE_DEVICE[1:], *_HOST, "score_passes", "message_overlap"),
    "megatron-2021": (
        "passes",
        "inner_passes",
        "score_passes",
        "block_s",
        "message_overlap",
        "jitter",
    ),
    "deepspeed-2021": ("data_calls", "jitter"),
    "megatron-2023": ("passes", "inner_passes", "attention_rate", "jitter"),
    "megascale": ("passes", "inner_passes", "attention_rate", "tensor_overlap", "jitter"),
    "megatron": (
        "passes",
        "inner_passes",
        "attention_rate",
        "data_overlap",
        "message_overlap",
        "jitter",
    ),
    "nemo": (
        "cast_passes",
        "passes",
        "inner_passes",
        "attention_rate",
        "tensor_overlap",
        "data_overlap",
        "jitter",
    ),
    "mlperf": ("cast_passes", "tensor_overlap", "jitter"),
    "torchtitan": (
        "cast_passes",
        "passes",
        "inner_passes",
        "attention_rate",
        "data_overlap",
        "contention",
    ),
    "torchtitan-eager": ("passes", "inner_passes", "attention_rate", "data_overlap"),
}
"""The parameters that the rows of each framework tell something of."""

_LEAST_MFU = 8.0  # percent: below are the runs of the playbook that something else stopped
_PULL = 0.03
_TOGETHER = 3.0
_DIGITS = 3
_ALIKE = 0.05


@dataclass(frozen=True, eq=False)
class Batch:
    """Cases of one model on one machine; ``of``: which case each layout is a way of."""

    model: Transformer
    machine: Machine
    cases: tuple[Case, ...]
    of: NDArray[np.int64]

    def seconds(self, software: Software) -> NDArray[np.float64]:
        """The predicted step of each case, the fastest of its ways, shape (cases,)."""
        layouts = np.concatenate([case.layouts for case in self.cases])
        steps = estimate(self.model, layouts, replace(self.machine, software=software)).step_s
        least = np.full(len(self.cases), np.inf)
        np.minimum.at(least, self.of, steps)
        return least


def batches_of(cases: Iterable[Case]) -> list[Batch]:
    """Cases by model and machine."""

    def key(case: Case) -> str:
        return f"{case.model} {case.machine}"

    found = []
    for _, group in groupby(sorted(cases, key=key), key):
        several = tuple(group)
        of = np.repeat(np.arange(len(several)), [len(case.layouts) for case in several])
        found.append(Batch(several[0].model, several[0].machine, several, of))
    return found


def remember_prices() -> None:
    """Price each product and each call once: no parameter that is fitted here changes them."""
    product = remembered(product_seconds)
    passes.product_seconds = product  # type: ignore[assignment]
    attention.product_seconds = product  # type: ignore[assignment]
    calls.call_seconds = remembered(call_seconds)  # type: ignore[assignment]


def remembered(
    priced: Callable[..., NDArray[np.float64]],
) -> Callable[..., NDArray[np.float64]]:
    """A function of a device, told by its name, or of a network, of a word, and of arrays."""
    known: dict[tuple[Any, ...], NDArray[np.float64]] = {}

    def price(of: Any, word: str, *sizes: ArrayLike) -> NDArray[np.float64]:
        key = (
            getattr(of, "name", of),
            word,
            *(np.asarray(one, np.float64).tobytes() for one in sizes),
        )
        if key not in known:
            known[key] = priced(of, word, *sizes)
        return known[key].copy()

    return price


def fit(start: Software, names: Sequence[str], batches: Sequence[Batch]) -> Software:
    """The software whose parameters ``names`` agree best with what was measured."""
    least, begin, most = np.log([RANGES[name] for name in names]).T
    measured = np.log([case.row.step_s for batch in batches for case in batch.cases])
    weights = _weights([case for batch in batches for case in batch.cases])
    at = np.log((begin - least) / (most - begin))

    def values(x: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.exp(least + (most - least) / (1 + np.exp(-x)))

    def software(found: Sequence[float]) -> Software:
        return replace(start, **dict(zip(names, found, strict=True)))

    def residuals(x: NDArray[np.float64]) -> NDArray[np.float64]:
        steps = np.concatenate([batch.seconds(software(values(x))) for batch in batches])
        return np.concatenate([(np.log(steps) - measured) * weights, _PULL * (x - at)])

    found = least_squares(residuals, at, loss="soft_l1", f_scale=0.1, max_nfev=60, diff_step=1e-3)
    return software(_rounded(values(found.x)))


def _rounded(values: NDArray[np.float64]) -> list[float]:
    return [float(f"{value:.{_DIGITS}g}") for value in values]


def _weights(cases: Sequence[Case]) -> NDArray[np.float64]:
    """The rows of each model of a source count as much together as those of any other."""
    names = [f"{case.row.source} {case.model.name}" for case in cases]
    return np.array([_TOGETHER * names.count(name) ** -0.5 for name in names])


def errors(software: Software, batches: Sequence[Batch]) -> NDArray[np.float64]:
    """Predicted to measured, less 1, of every case in the order of the batches."""
    steps = np.concatenate([batch.seconds(software) for batch in batches])
    measured = np.array([case.row.step_s for batch in batches for case in batch.cases])
    return np.asarray(steps / measured - 1)


def held_out(
    start: Software, names: Sequence[str], batches: Sequence[Batch]
) -> Iterator[tuple[str, NDArray[np.float64]]]:
    """The errors on each model of a fit to all other models."""
    models = dict.fromkeys(batch.model.name for batch in batches)
    for model in models if len(models) > 1 else ():
        others = [batch for batch in batches if batch.model.name != model]
        own = [batch for batch in batches if batch.model.name == model]
        yield model, errors(fit(start, names, others), own)


def alike(one: Software, other: Software, names: Sequence[str]) -> bool:
    """Whether two fits agree as far as another machine's arithmetic lets them."""
    return all(abs(getattr(one, n) / getattr(other, n) - 1) < _ALIKE for n in names)


def written(name: str, software: Software, names: Sequence[str]) -> str:
    """The file of a framework with what was fitted."""
    path = FOLDER / f"{name}.toml"
    kept = path.read_text().split("[fitted]")[0].rstrip()
    lines = [f"{one} = {getattr(software, one):.{_DIGITS}g}" for one in names]
    text = "\n".join([kept, "", "[fitted]", *lines, ""])
    tomllib.loads(text)
    return text


def cases_of(name: str) -> list[Case]:
    """The measured rows of a framework that can be predicted."""
    return [
        case
        for case in expressed(shipped_rows())
        if isinstance(case, Case)
        and case.machine.software.name == name
        and case.row.step_s
        and (case.row.mfu_pct or 100.0) >= _LEAST_MFU
    ]


def unfitted(name: str) -> Software:
    """A framework without what was fitted of it: where a fit begins."""
    parts = dict(software_file(name))
    parts.pop("fitted", None)
    return Software(name=name, **parts.pop("given", {}), **parts)


def main() -> None:
    """Fit, compare with what is shipped, and write it where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("names", nargs="*", metavar="SOFTWARE")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--held-out", action="store_true")
    asked = parser.parse_args()
    differ = False
    remember_prices()
    for name in asked.names or FITTED:
        start, names = unfitted(name), FITTED[name]
        batches = batches_of(cases_of(name))
        found = fit(start, names, batches)
        differ |= not alike(found, software_named(name), names)
        _print(name, found, names, batches)
        if asked.held_out:
            for model, one in held_out(start, names, batches):
                print(f"  without {model}: {_summary(one)} there")
        if asked.write:
            (FOLDER / f"{name}.toml").write_text(written(name, found, names))
    print("the shipped parameters differ from these" if differ else "these are shipped")
    sys.exit(differ and not asked.write)


def _print(name: str, found: Software, names: Sequence[str], batches: Sequence[Batch]) -> None:
    print(f"{name}: " + ", ".join(f"{one} {getattr(found, one):.{_DIGITS}g}" for one in names))
    print(f"  all: {_summary(errors(found, batches))}")
    by_source: dict[str, list[Batch]] = {}
    for batch in batches:
        case = batch.cases[0]
        by_source.setdefault(f"{case.row.source[:40]} {batch.model.name}", []).append(batch)
    for label, some in by_source.items():
        print(f"  {label}: {_summary(errors(found, some))}")


def _summary(found: NDArray[np.float64]) -> str:
    absolute = np.abs(found)
    return (
        f"{len(found)} rows, error {100 * absolute.mean():.1f} %, median "
        f"{100 * np.median(absolute):.1f} %, bias {100 * found.mean():+.1f} %"
    )


if __name__ == "__main__":
    main()
