"""Cluster files: TOML that a person writes, and the presets that are such files."""

import tomllib
from collections import Counter
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import numpy as np

from steptime.arrays import Floats, Ints
from steptime.cluster.assemble import joined_links, joined_route
from steptime.cluster.cluster import CallTimes, Cluster, Device, Fabric
from steptime.cluster.fabrics.kind import fabric_kinds
from steptime.cluster.fabrics.wiring import Ends
from steptime.errors import UsageError
from steptime.files import bounded_text
from steptime.nearest import mend
from steptime.section import Section
from steptime.units import parse_bytes, parse_seconds

_PRESETS = files("steptime.cluster") / "presets"
_MOST_BYTES = 16 << 20  # a place for each of a million devices
_MOST_DEVICES = 1 << 20
_MOST_NICS = 1 << 20


def preset_names() -> list[str]:
    """The clusters that steptime ships."""
    return sorted(file.name.removesuffix(".toml") for file in _PRESETS.iterdir())


def cluster_named(name: str | Path) -> Cluster:
    """A preset by its name, or the cluster of a file by its path.

    Raises UsageError when there is none of that name or the file is wrong.
    """
    if isinstance(name, Path) or name.endswith(".toml") or "/" in name:
        return parse_cluster(bounded_text(Path(name), "cluster file", _MOST_BYTES), str(name))
    known = preset_names()
    if name not in known:
        raise UsageError(
            f"no cluster is called {name!r} (a file's name ends in .toml): {mend(name, known)}"
        )
    return parse_cluster((_PRESETS / f"{name}.toml").read_text(), name)


def parse_cluster(text: str, name: str) -> Cluster:
    """The cluster that a file describes; errors quote ``name``, the file's.

    Raises UsageError naming the key when one is unknown, missing or out of its range.
    """
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{name} is no TOML: {error}") from None
    top = Section(table, name)
    title = top.text("title", name)
    source = top.text("source", "")
    device = _device(top.section("device"))
    host = top.section("host")
    hosts, devices = host.count("count", 1), host.count("devices", 1)
    if hosts * devices > _MOST_DEVICES:
        host.refuse("count", f"times devices is {hosts * devices}: at most {_MOST_DEVICES:,} fit")
    inside = _inside(top, devices)
    network = _network(top, hosts, devices)
    order = _order(top.section("placement"), hosts, devices)
    speed = _speed(top.section("speeds"), hosts, devices)
    calls = _calls(top.section("calls"))
    top.finish()
    return Cluster(
        name=Path(name).name.removesuffix(".toml"),
        title=title,
        source=source,
        device=device,
        host_of=np.repeat(np.arange(hosts, dtype=np.int32), devices),
        speed=speed,
        links=joined_links(hosts, inside, network),
        route=joined_route(hosts, devices, inside, network),
        order=order,
        inside=inside,
        network=network,
        calls=calls,
    )


def _device(section: Section) -> Device:
    flops = section.section("flops")
    efficiency = section.number("efficiency", 1.0)
    if efficiency > 1:
        section.refuse("efficiency", f"is {efficiency}: it is a part of the peak, 1 at most")
    rates = {dtype: flops.flops(dtype) for dtype in flops.keys()}  # noqa: SIM118  # no mapping
    if not rates:
        section.refuse("flops", 'is missing: write flops = { fp32 = "20TFLOP/s" }, by dtype')
    return Device(
        name=section.text("name", "device"),
        flops=rates,
        memory=section.size("memory"),
        memory_bandwidth=section.rate("memory_bandwidth"),
        efficiency=efficiency,
        reduction=section.rate("reduction") if section.has("reduction") else np.inf,
    )


def _inside(top: Section, devices: int) -> Fabric | None:
    section = top.section("inside")
    if devices == 1:
        if top.has("inside"):
            top.refuse("inside", "joins the devices of a host, and each has one: leave it out")
        return None
    makers = {name: kind.inside for name, kind in fabric_kinds().items() if kind.inside}
    return makers[section.choice("kind", tuple(makers))](section, devices)


def _network(top: Section, hosts: int, devices: int) -> Fabric | None:
    section, nic = top.section("network"), top.section("nic")
    if hosts == 1:
        for key in ("network", "nic"):
            if top.has(key):
                top.refuse(key, "joins hosts, and there is one: leave it out or set host.count")
        return None
    of_nics = {name: one.between_nics for name, one in fabric_kinds().items() if one.between_nics}
    of_hosts = {n: one.between_hosts for n, one in fabric_kinds().items() if one.between_hosts}
    kind = section.choice("kind", (*of_nics, *of_hosts))
    if kind in of_hosts:
        if top.has("nic"):
            top.refuse("nic", f"is not for {kind!r}, whose links end at the hosts: leave it out")
        return of_hosts[kind](section, hosts)
    per_host = nic.count("per_host", 1)
    if devices % per_host and per_host % devices:
        nic.refuse("per_host", f"is {per_host}, which does not divide the {devices} devices")
    if hosts * per_host > _MOST_NICS:
        nic.refuse("per_host", f"times hosts is {hosts * per_host}: at most {_MOST_NICS:,} fit")
    return of_nics[kind](section, Ends(hosts, per_host, nic.duplex()))


def _order(section: Section, hosts: int, devices: int) -> Ints:
    chosen = section.raw("order") if section.has("order") else "block"
    places = np.arange(hosts * devices, dtype=np.int32)
    if chosen == "block":
        return places
    if chosen == "round_robin":
        return places.reshape(hosts, devices).T.reshape(-1)
    if not isinstance(chosen, list) or not chosen:
        section.refuse(
            "order", f"is {chosen!r}: it must be block, round_robin or a list of devices"
        )
    order = [_place(section, "order", one, hosts, devices) for one in chosen]
    twice, times = Counter(order).most_common(1)[0]
    if times > 1:
        named = f"{twice // devices}.{twice % devices}"
        section.refuse("order", f"names device {named} twice: a device takes one rank")
    return np.array(order, np.int32)


def _speed(section: Section, hosts: int, devices: int) -> Floats:
    speed = np.ones((hosts, devices))
    for key in section.keys():  # noqa: SIM118  # no mapping
        host, _, device = key.partition(".")
        place = _place(section, key, f"{host}.{device or 0}", hosts, devices)
        speed[place // devices, place % devices if device else slice(None)] = section.number(key)
    return speed.reshape(-1)


def _calls(section: Section) -> dict[str, tuple[CallTimes, ...]]:
    """The times of calls by kind, from lists of tables of ranks, algorithm, sizes and times."""
    return {
        kind: tuple(_call_times(table) for table in section.sections(kind))
        for kind in section.keys()  # noqa: SIM118  # no mapping
    }


def _call_times(table: Section) -> CallTimes:
    found = CallTimes(
        ranks=table.count("ranks", least=2),
        algorithm=table.text("algorithm", ""),
        sizes=tuple(table.listed("sizes", parse_bytes)),
        seconds=tuple(table.listed("times", parse_seconds)),
    )
    if len(found.sizes) != len(found.seconds) or not found.sizes:
        table.refuse(
            "times", f"are {len(found.seconds)} for {len(found.sizes)} sizes: give one each"
        )
    if any(below >= above for below, above in pairwise(found.sizes)):
        table.refuse("sizes", "do not ascend: sort them, with their times")
    if min(found.seconds) <= 0:
        table.refuse("times", "must be above 0")
    table.finish()
    return found


def _place(section: Section, key: str, written: object, hosts: int, devices: int) -> int:
    """The device that a file names by its number or as "host.device"."""
    host, _, device = str(written).partition(".")
    if isinstance(written, int) and not isinstance(written, bool):
        host, device = str(written // devices), str(written % devices)
    if not (isinstance(written, int | str) and host.isdecimal() and device.isdecimal()):
        section.refuse(key, f"has {written!r}: a device is written as its number or 'host.device'")
    if int(host) >= hosts or int(device) >= devices:
        section.refuse(
            key,
            f"names device {device} of host {host}: hosts are numbered to {hosts - 1} and their "
            f"devices to {devices - 1}",
        )
    return int(host) * devices + int(device)
