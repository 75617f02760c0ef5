"""Device files: one TOML file a kind of device, and what a cluster's file says of its own."""

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from importlib.resources import files
from typing import Any, TypeVar, cast, get_args

import numpy as np

from steptime.cluster.cluster import Basis, Device
from steptime.cluster.kernel_parameters import AttentionRates, Ground, Kernels, Origin
from steptime.errors import UsageError
from steptime.files import parsed_toml
from steptime.nearest import mend
from steptime.section import Section

_T = TypeVar("_T")
_OF_ATTENTION = tuple(one.name for one in fields(AttentionRates))
_DEVICES = files("steptime.cluster") / "devices"


def device_names() -> list[str]:
    """The kinds of devices that steptime ships."""
    return sorted(file.name.removesuffix(".toml") for file in _DEVICES.iterdir())


def device_named(name: str) -> Device:
    """A shipped kind of device; raises UsageError, naming near ones, where there is none."""
    if name not in device_names():
        raise UsageError(f"no device is called {name!r}: {mend(name, device_names())}")
    section = Section(_table(name), f"device {name}")
    device = _described(section)
    section.finish()
    return device


def read_device(section: Section) -> Device:
    """The device that a table describes: on the ground of ``preset``, where it names one.

    Its own keys then stand for the preset's. An ``efficiency`` of its own is the rate at which it
    computes everything: it puts the roofline in the place of the preset's kernels.

    Raises UsageError naming the key that is wrong.
    """
    if section.has("preset"):
        return _on_preset(section)
    return _described(section)


def _described(section: Section) -> Device:
    flops = section.section("flops")
    efficiency = section.number("efficiency", 1.0)
    if efficiency > 1:
        section.refuse("efficiency", f"is {efficiency}: it is a part of the peak, 1 at most")
    rates = {dtype: flops.flops(dtype) for dtype in flops.keys()}  # noqa: SIM118  # no mapping
    if not rates:
        section.refuse("flops", 'is missing: write flops = { fp32 = "20TFLOP/s" }, by dtype')
    section.text("source", "")
    return Device(
        name=section.text("name", "device"),
        flops=rates,
        memory=section.size("memory"),
        memory_bandwidth=section.rate("memory_bandwidth"),
        efficiency=efficiency,
        reduction=section.rate("reduction") if section.has("reduction") else np.inf,
        basis=cast("Basis", section.choice("basis", get_args(Basis), "assumed")),
        watts=section.number("watts") if section.has("watts") else None,
        kernels=_kernels(section.section("kernels")) if section.has("kernels") else None,
    )


def _on_preset(section: Section) -> Device:
    name = section.text("preset")
    if name not in device_names():
        section.refuse("preset", f"is {name!r}, which is no device: {mend(name, device_names())}")
    ground = _table(name)
    if section.has("efficiency"):
        ground.pop("kernels", None)
    both = section.on_ground(ground)
    both.text("preset")
    device = _described(both)
    both.finish()
    return device


def _table(name: str) -> dict[str, Any]:
    """What a shipped file says, not checked yet."""
    return parsed_toml((_DEVICES / f"{name}.toml").read_text())


def _kernels(section: Section) -> Kernels:
    origins: dict[str, Origin] = {}
    read = partial(_parameter, section, origins)
    attention = section.section("attention")
    kernels = Kernels(
        units=read("units", Section.count),
        start_s=read("start_s", Section.seconds),
        reach=read("reach", Section.number),
        rate=read("rate", Section.number),
        feed=read("feed", Section.rate),
        epilogue=read("epilogue", Section.number),
        sustained=read("sustained", _numbers),
        unaligned=read("unaligned", Section.number),
        launch_s=read("launch_s", Section.seconds),
        attention={
            name: _attention(attention.section(name), name, origins)
            for name in attention.keys()  # noqa: SIM118  # no mapping
        },
        origins=origins,
    )
    if not kernels.attention:
        section.refuse("attention", "names no kernel: give a table, such as attention.flash2")
    return kernels


def _parameter(
    section: Section, origins: dict[str, Origin], key: str, parse: Callable[[Section, str], _T]
) -> _T:
    """A parameter with its origin: as the table says, or as another device has it."""
    table = section.section(key)
    if table.has("as"):
        name = _device_of(table)
        other = Section(_table(name)["kernels"], f"device {name}")
        value = _parameter(other, {}, key, parse)
        origins[key] = Origin("assumed", f"as {_table(name)['name']}")
        return value
    origins[key] = _origin(table)
    return parse(table, "value")


def _device_of(table: Section) -> str:
    name = table.text("as")
    if name not in device_names():
        table.refuse("as", f"is {name!r}, which is no device: {mend(name, device_names())}")
    return name


def _numbers(table: Section, key: str) -> dict[str, float]:
    inner = table.section(key)
    return {name: inner.number(name) for name in inner.keys()}  # noqa: SIM118  # no mapping


def _attention(section: Section, name: str, origins: dict[str, Origin]) -> AttentionRates:
    if section.has("as"):
        other = _device_of(section)
        tables = _table(other)["kernels"]["attention"]
        if name not in tables:
            section.refuse("as", f"is {other!r}, which has no {name}: it has {', '.join(tables)}")
        found: dict[str, Origin] = {}
        rates = _attention(Section(tables[name], f"device {other}"), name, found)
        origin = Origin("assumed", f"as {_table(other)['name']}")
        origins.update(dict.fromkeys(found, origin))
        return rates
    own: dict[str, Origin] = {}
    rates = AttentionRates(
        **{key: _parameter(section, own, key, Section.number) for key in _OF_ATTENTION}
    )
    origins.update({f"{name}.{key}": origin for key, origin in own.items()})
    return rates


def _origin(table: Section) -> Origin:
    basis = cast("Ground", table.choice("basis", get_args(Ground)))
    return Origin(basis, table.text("source"))
