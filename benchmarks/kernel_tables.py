"""The kernels of devices against published measurements: predicted over measured, figure by figure.

    python benchmarks/kernel_tables.py          # every figure, and the errors by device and group
    python benchmarks/kernel_tables.py --fit    # the fitted parameters, anew from the figures

``kernel_figures.csv`` holds the figures, each with its source and its use: ``fit`` (a parameter was
fitted to it), ``judge`` (none was) or ``apart`` (no figure of the device's kernels; the note says
why). A fit takes turns among a device's parameters, each moved to where the mean squared logarithm
of predicted over measured is least, until none moves: the same on every machine.
"""

import argparse
import csv
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import exp, log
from pathlib import Path

import numpy as np

import steptime
from steptime.cluster import Device, Kernels, device_named, device_names
from steptime.simulate.kernels import attention_seconds, product_seconds, stream_seconds

DEVICES = Path(steptime.__file__).parent / "cluster" / "devices"
FIGURES = Path(__file__).with_name("kernel_figures.csv")


@dataclass(frozen=True)
class Figure:
    """A published measurement; ``row``: of the file, all texts."""

    row: Mapping[str, str]

    def __getattr__(self, name: str) -> str:
        return self.row[name]

    def number(self, name: str) -> float:
        return float(self.row[name])

    @property
    def measured_s(self) -> float:
        """The seconds that it stands for."""
        value, unit = self.number("value"), self.unit
        if unit == "ms":
            return value / 1e3
        return self.number("bytes") / (value * 1e9) if unit == "GB/s" else self.flops / value / 1e12

    @property
    def flops(self) -> float:
        if self.m:
            return 2 * self.number("m") * self.number("n") * self.number("k") * self.number("batch")
        pairs = self.number("batch") * self.number("n") * self.number("tokens") ** 2
        passes = {"forward": 1.0, "backward": 2.5, "both": 3.5}[self.way]
        return 4 * pairs * self.number("width") * passes * (0.5 if self.causal == "1" else 1.0)

    def predicted_s(self, device: Device) -> float:
        """What the model says that a device takes; short products do not feel the power limit."""
        if not self.held and device.kernels:
            device = replace(device, kernels=replace(device.kernels, sustained={}))
        if self.m:
            sizes = [self.number(name) for name in ("m", "n", "k", "batch")]
            return float(product_seconds(device, self.dtype, *sizes))
        if self.bytes:
            return float(stream_seconds(device, self.number("bytes")))
        ways = ("forward", "backward") if self.way == "both" else (self.way,)
        return sum(
            float(
                attention_seconds(
                    device,
                    self.dtype,
                    rows=self.number("batch"),
                    heads=self.number("n"),
                    queries=self.number("tokens"),
                    keys=self.number("tokens"),
                    width=self.number("width"),
                    causal=self.causal == "1",
                    backward=way == "backward",
                    kernel=self.kernel,
                )
            )
            for way in ways
        )

    def case(self) -> str:
        """What was measured, in a few words."""
        if self.m:
            times = f" x {self.batch}" if self.batch != "1" else ""
            return f"{self.dtype} {self.m} x {self.n} x {self.k}{times}"
        if self.bytes:
            return self.note or f"{self.number('bytes'):g} bytes"
        return f"{self.tokens} tokens, heads of {self.width}{', causal' * (self.causal == '1')}"


def figures() -> list[Figure]:
    """All figures of the file."""
    with FIGURES.open(newline="") as file:
        return [Figure(row) for row in csv.DictReader(file)]


def with_parameter(device: Device, name: str, value: float) -> Device:
    """The device with another value of a parameter: of its kernels, or ``flash2.forward``."""
    kernels = _kernels(device)
    if "." not in name:
        return replace(device, kernels=replace(kernels, **{name: value}))
    of, part = name.split(".")
    rates = replace(kernels.attention[of], **{part: value})
    return replace(device, kernels=replace(kernels, attention={**kernels.attention, of: rates}))


def parameter(kernels: Kernels, name: str) -> float:
    """The value of a parameter by that name."""
    of, _, part = name.rpartition(".")
    return float(getattr(kernels.attention[of] if of else kernels, part))


def _kernels(device: Device) -> Kernels:
    assert device.kernels is not None
    return device.kernels


def fitted_names(device: Device) -> list[str]:
    """The parameters of a device that its file calls fitted."""
    return [name for name, origin in _kernels(device).origins.items() if origin.basis == "fitted"]


def loss(device: Device, rows: Iterable[Figure]) -> float:
    """The mean squared logarithm of predicted over measured."""
    return float(np.mean([log(one.predicted_s(device) / one.measured_s) ** 2 for one in rows]))


def least(function: Callable[[float], float], start: float) -> float:
    """Where a function of a positive number is least, near ``start``: to a thousandth of it."""
    width, best, at = 0.3, function(start), start
    while width > 5e-4:
        for tried in (at * exp(-width), at * exp(width)):
            if (found := function(tried)) < best - 1e-12:
                best, at = found, tried
                break
        else:
            width /= 2
    return at


def fit(device: Device, rows: Sequence[Figure], names: Sequence[str]) -> Device:
    """The device with those parameters moved to where its figures fit best."""
    for _ in range(40):
        before = [parameter(_kernels(device), name) for name in names]
        for name in names:
            at = parameter(_kernels(device), name)
            best = least(partial(_moved_loss, device, rows, name), at)
            device = with_parameter(device, name, min(best, 1.0) if _is_share(name) else best)
        after = [parameter(_kernels(device), name) for name in names]
        if np.allclose(before, after, rtol=1e-3):
            break
    return device


def _moved_loss(device: Device, rows: Sequence[Figure], name: str, value: float) -> float:
    return loss(with_parameter(device, name, value), rows)


def _is_share(name: str) -> bool:
    return name.rpartition(".")[2] in ("reach", "rate", "epilogue", "forward", "backward")


def kind_of(name: str) -> str:
    """Of which figures a parameter is fitted to: a kernel of attention, streams or products."""
    return name.split(".")[0] if "." in name else ("stream" if name == "reach" else "product")


def kind(figure: Figure) -> str:
    """The same of a figure."""
    return figure.kernel or ("product" if figure.m else "stream")


def fitted(device_name: str) -> dict[str, float]:
    """The fitted parameters of a shipped device, found anew from the figures."""
    device = device_named(device_name)
    found: dict[str, float] = {}
    names = defaultdict(list)
    for name in fitted_names(device):
        names[kind_of(name)].append(name)
    for what, some in names.items():
        rows = [
            one
            for one in figures()
            if (one.device, one.use, kind(one)) == (device_name, "fit", what)
        ]
        moved = fit(device, rows, some)
        found |= {name: parameter(_kernels(moved), name) for name in some}
    return found


@dataclass(frozen=True)
class Errors:
    """How far the figures of a group are off: on average, at most, and with their sign."""

    device: str
    group: str
    use: str
    ratios: tuple[float, ...]

    @property
    def mean(self) -> float:
        return float(np.mean(np.abs(np.array(self.ratios) - 1)))

    @property
    def most(self) -> float:
        return float(np.max(np.abs(np.array(self.ratios) - 1)))

    @property
    def bias(self) -> float:
        return float(np.mean(self.ratios)) - 1


def errors(rows: Sequence[Figure]) -> list[Errors]:
    """The errors of figures by device, group and use."""
    found: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for one in rows:
        ratio = one.predicted_s(device_named(one.device)) / one.measured_s
        found[one.device, one.group, one.use].append(ratio)
    return [Errors(*key, tuple(ratios)) for key, ratios in sorted(found.items())]


def shown(rows: Sequence[Figure]) -> None:
    """Every figure with what is predicted, the errors by device and group, and those left out."""
    for one in rows:
        ratio = one.predicted_s(device_named(one.device)) / one.measured_s
        print(
            f"{one.device:<10} {one.group:<18} {one.case():<50.50} {1e6 * one.measured_s:>10.1f} us"
            f"  x{ratio:5.2f}  {one.use}"
        )
    print(f"\n{'device':<10} {'group':<18} {'use':<6} figures  mean error  most  bias")
    for each in errors(rows):
        print(
            f"{each.device:<10} {each.group:<18} {each.use:<6} {len(each.ratios):>7} "
            f"{each.mean:>10.1%} {each.most:>6.0%} {each.bias:>+6.1%}"
        )
    print(f"\n{'device left out':<16} figures of products and streams  mean error  bias")
    for left in left_out():
        print(f"{left.device:<16} {len(left.ratios):>31} {left.mean:>10.1%} {left.bias:>+6.1%}")


SHARED = ("rate", "reach", "start_s", "epilogue")
"""The parameters that other devices of a vendor tell something of."""


def left_out() -> list[Errors]:
    """Products and streams of each device by parameters of its vendor's others, none its own."""
    own: dict[str, dict[str, float]] = {}
    for name in device_names():
        kernels = _kernels(device_named(name))
        known = [key for key in SHARED if kernels.origins[key].basis != "assumed"]
        own[name] = {key: parameter(kernels, key) for key in known}
    found = []
    for name in sorted({one.device for one in figures()}):
        device = device_named(name)
        for key in SHARED:
            others = [
                known[key]
                for other, known in own.items()
                if other != name and key in known and _vendor(other) == _vendor(name)
            ]
            if others:
                device = with_parameter(device, key, float(np.exp(np.mean(np.log(others)))))
        rows = [
            one
            for one in figures()
            if one.device == name and one.use != "apart" and not one.kernel and not one.held
        ]
        ratios = tuple(one.predicted_s(device) / one.measured_s for one in rows)
        found.append(Errors(name, "left out", "judge", ratios))
    return [one for one in found if one.ratios]


def _vendor(name: str) -> str:
    return "AMD" if name.startswith("mi") else "NVIDIA"


def renewed(text: str, found: Mapping[str, float]) -> str:
    """A device's file with the fitted values in the place of its own."""
    lines, table = [], ""
    for line in text.splitlines():
        if line.startswith("["):
            table = line.strip("[]").removeprefix("kernels").strip(".").removeprefix("attention.")
        key = line.split(" = ")[0]
        if (value := found.get(f"{table}.{key}" if table else key)) is not None:
            line = re.sub(r"value = [^,]+,", f"value = {written(key, value)},", line)
        lines.append(line)
    return "\n".join(lines) + "\n"


def written(key: str, value: float) -> str:
    """A value as files have it."""
    if key == "start_s":
        return f'"{1e6 * value:.3g}us"'
    return f'"{value / 1e12:.3g}TB/s"' if key == "feed" else f"{value:.3g}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fit", action="store_true", help="the fitted parameters anew")
    parser.add_argument("--write", action="store_true", help="and into the files of the devices")
    options = parser.parse_args()
    if not options.fit:
        shown(figures())
        return
    for name in sorted({one.device for one in figures()}):
        found = fitted(name)
        for key, value in found.items():
            now = parameter(_kernels(device_named(name)), key)
            print(f"{name:<10} {key:<24} {value:.4g}  (shipped {now:.4g})")
        if options.write:
            file = DEVICES / f"{name}.toml"
            file.write_text(renewed(file.read_text(), found))


if __name__ == "__main__":
    main()
