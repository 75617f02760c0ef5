"""Make docs/devices.md of the files of devices and of the figures that they are judged by.

``python docs/make_devices.py`` writes it; tests/test_devices_page.py holds that it is current.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))
import kernel_tables  # noqa: E402  # it lies beside the package

from steptime.cluster import Device, device_named, device_names  # noqa: E402
from steptime.cluster.kernel_parameters import MEANINGS, Kernels, Origin  # noqa: E402

PAGE = ROOT / "docs" / "devices.md"
HEAD = """# Devices, and what their kernels take

<!-- made of src/steptime/cluster/devices and benchmarks/kernel_figures.csv by
`python docs/make_devices.py`: change them, not this page -->

*What does a matrix product, attention or a norm take on that GPU?* Each device is one file in
`src/steptime/cluster/devices`; a [cluster](cluster.md) names it, `[device] preset = "h100-sxm"`,
and may give keys of its own. A few physical parameters price every kernel of a step, whatever the
model:

- A **product** is cut into tiles of 256×128 down to 64×64 that the units compute in waves, so
  `ceil(tiles / units)` counts; a tile takes what its arithmetic takes or, if longer, what feeding
  it takes; results are written behind the next tile, all but a share; few tiles share k among
  units; a long product is held to what the power limit sustains; bytes to and from memory are the
  other ceiling. The fastest tile counts.
- **Attention**, fused, gives a block of 128 queries of a head to a unit; a block takes some keys'
  worth of time to begin and to end, and the softmax as long as the products of so many columns.
- What **memory** bounds takes its bytes at the bandwidth that is reached, and a time to start.

`given` is a datasheet's, `published` what others measured, `fitted` found from what they measured
by `python benchmarks/kernel_tables.py --fit`, `assumed` a guess, mostly another device's value.
A device without such parameters, as `steptime topo --measure` writes it, is a roofline.
"""


def page() -> str:
    """The text of the page."""
    devices = [device_named(name) for name in device_names()]
    parts = [HEAD, "## The devices\n", table(_rates(devices)), "## What the parameters mean\n"]
    parts += [table((("parameter", "meaning"), *MEANINGS.items()))]
    parts += ["## Their values\n", "*a* assumed, *f* fitted, *p* published, *g* given.\n"]
    parts += [table(_values(devices)), "## Attention\n", table(_attention(devices))]
    parts += ["## Where they come from\n", *_sources(), ERRORS, table(_errors())]
    parts += [APART, table(_apart()), LEFT_OUT, table(_left_out()), TAIL]
    return "\n".join(parts)


ERRORS = """## How far off

Every figure of `benchmarks/kernel_figures.csv`, predicted over measured. The use says whether a
parameter was fitted to the figures (`fit`) or none was (`judge`).
"""
APART = """Figures that no parameter of a device explains are kept apart, and counted nowhere:
"""
LEFT_OUT = """### Each device by the others

The rate, the reach, the start and the epilogue taken from the vendor's other devices, none from
its own figures: what a device would be priced at of which only the datasheet is known. AMD's parts
differ most, for their libraries did.
"""
TAIL = """**Read next:** [clusters](cluster.md), which name devices;
[how accurate it is](accuracy.md), [models](models.md).
"""


def table(rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table of a heading and rows."""
    head, *others = rows
    lines = [head, ["---"] * len(head), *others]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def _rates(devices: Sequence[Device]) -> Iterator[Sequence[str]]:
    dtypes = ("fp32", "tf32", "bf16", "fp8", "fp4")
    yield "preset", "device", *(f"{name} TFLOP/s" for name in dtypes), "GB", "TB/s", "W"
    for name, one in zip(device_names(), devices, strict=True):
        rates = (f"{one.flops[d] / 1e12:,.5g}" if d in one.flops else "–" for d in dtypes)
        memory = f"{one.memory / 1e9:.0f}", f"{one.memory_bandwidth / 1e12:.4g}"
        yield f"`{name}`", one.name, *rates, *memory, f"{one.watts:.0f}"


def _values(devices: Sequence[Device]) -> Iterator[Sequence[str]]:
    names = [name for name in MEANINGS if hasattr(_kernels(devices[0]), name)]
    yield "preset", *names
    for name, one in zip(device_names(), devices, strict=True):
        kernels = _kernels(one)
        yield f"`{name}`", *(_value(kernels, each) for each in names)


def _value(kernels: Kernels, name: str) -> str:
    value = getattr(kernels, name)
    if name == "sustained":
        shown = ", ".join(f"{d} {value[d]:.3g}" for d in ("bf16", "fp8") if d in value)
    elif name.endswith("_s"):
        shown = f"{1e6 * value:.3g} µs"
    else:
        shown = f"{value / 1e12:.3g} TB/s" if name == "feed" else f"{value:.3g}"
    return f"{shown} *{kernels.origins[name].basis[0]}*"


def _attention(devices: Sequence[Device]) -> Iterator[Sequence[str]]:
    parts = ("forward", "backward", "softmax", "lead_forward", "lead_backward")
    yield "preset", "kernel", *parts
    for name, one in zip(device_names(), devices, strict=True):
        kernels = _kernels(one)
        for which, rates in kernels.attention.items():
            marks = (kernels.origins[f"{which}.{part}"].basis[0] for part in parts)
            shown = zip((getattr(rates, part) for part in parts), marks, strict=True)
            yield f"`{name}`", which, *(f"{value:.3g} *{mark}*" for value, mark in shown)


def _sources() -> Iterator[str]:
    """What each device's own parameters stand on; those of another device stand there."""
    for name in device_names():
        by: dict[Origin, list[str]] = {}
        for key, origin in _kernels(device_named(name)).origins.items():
            by.setdefault(origin, []).append(key)
        lines = [
            f"    - {', '.join(keys)}: {origin.basis}, {origin.source}"
            for origin, keys in by.items()
        ]
        yield "\n".join([f"- **{name}**", *lines])
    yield ""


def _errors() -> Iterator[Sequence[str]]:
    yield "device", "figures", "number", "use", "mean error", "most", "bias"
    for one in kernel_tables.errors(kernel_tables.figures()):
        if one.use != "apart":
            off = f"{one.mean:.1%}", f"{one.most:.0%}", f"{one.bias:+.1%}"
            yield f"`{one.device}`", one.group, f"{len(one.ratios)}", one.use, *off


def _apart() -> Iterator[Sequence[str]]:
    yield "device", "case", "measured", "predicted over measured", "why"
    for one in kernel_tables.figures():
        if one.use == "apart":
            ratio = one.predicted_s(device_named(one.device)) / one.measured_s
            took = f"{one.value} {one.unit}"
            yield f"`{one.device}`", one.case(), took, f"{ratio:.2f}", one.note


def _left_out() -> Iterator[Sequence[str]]:
    yield "device", "figures", "mean error", "bias"
    for one in kernel_tables.left_out():
        yield f"`{one.device}`", f"{len(one.ratios)}", f"{one.mean:.1%}", f"{one.bias:+.1%}"


def _kernels(device: Device) -> Kernels:
    assert device.kernels is not None  # noqa: S101  # every shipped one has some
    return device.kernels


if __name__ == "__main__":
    PAGE.write_text(page())
