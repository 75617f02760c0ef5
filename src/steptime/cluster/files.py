"""Cluster files: TOML that a person writes, and the presets that are such files."""

import re
from collections import Counter
from dataclasses import replace
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np

from steptime.arrays import Floats, Ints
from steptime.cluster.assemble import joined_links, joined_route
from steptime.cluster.cluster import (
    CallTimes,
    Cluster,
    DeviceLinks,
    Fabric,
    Generation,
    HostNetwork,
    Nccl,
)
from steptime.cluster.device_files import read_device
from steptime.cluster.fabrics.kind import fabric_kinds
from steptime.cluster.fabrics.wiring import Ends
from steptime.errors import UsageError
from steptime.files import bounded_text, parsed_toml, reading
from steptime.limits import whole_number
from steptime.nearest import mend
from steptime.section import Section
from steptime.units import parse_bytes, parse_seconds

_PRESETS = files("steptime.cluster") / "presets"
_MOST_BYTES = 16 << 20  # a place for each of a million devices
_MOST_DEVICES = 1 << 20
_MOST_NICS = 1 << 20
_PARTS = ("late", "late_beside", "work", "rest")  # of the times of a call
_SCALED = re.compile(r"(?P<name>.+):(?P<key>\w+)=(?P<value>[^/]*)")


def preset_names() -> list[str]:
    """The clusters that steptime ships."""
    return sorted(file.name.removesuffix(".toml") for file in _PRESETS.iterdir())


def cluster_named(name: str | Path) -> Cluster:
    """A preset by its name, or the cluster of a file by its path, maybe of another size.

    ``NAME:hosts=280`` has so many of its hosts: its switches grow, or become fewer, with them.

    Raises UsageError when there is none of that name, the file is wrong or so many hosts cannot be.
    """
    text, hosts = (name, None) if isinstance(name, Path) else _sized(name)
    if isinstance(text, Path) or text.endswith(".toml") or "/" in text:
        return _parsed(bounded_text(Path(text), "cluster file", _MOST_BYTES), str(text), hosts)
    known = preset_names()
    if text not in known:
        raise UsageError(
            f"no cluster is called {text!r} (a file's name ends in .toml): {mend(text, known)}"
        )
    return _parsed((_PRESETS / f"{text}.toml").read_text(), text, hosts)


def parse_cluster(text: str, name: str) -> Cluster:
    """The cluster that a file describes; errors quote ``name``, the file's.

    Raises UsageError naming the key when one is unknown, missing or out of its range.
    """
    return _parsed(text, name, None)


def _parsed(text: str, name: str, hosts: int | None) -> Cluster:
    """The cluster of a file, with so many hosts where they are told apart from it."""
    with reading(name, "cluster file"):
        table = parsed_toml(text)
        if hosts is None:
            return _cluster(Section(table, name), name)
        scaled = _cluster(Section(_of_hosts(table, hosts, name), name), name)
    return replace(
        scaled,
        name=f"{scaled.name}:hosts={hosts}",
        title=f"{hosts:,} × {scaled.devices // hosts} {scaled.device.name}, as in {scaled.title}",
    )


def _sized(name: str) -> tuple[str, int | None]:
    """A cluster's name without what is said of its hosts, and how many those are."""
    found = _SCALED.fullmatch(name)
    if found is None:
        return name, None
    hosts = whole_number(found["value"])
    if found["key"] != "hosts" or not hosts:
        raise UsageError(
            f"the cluster {name!r} is asked for with {found['key']}={found['value']}: after its "
            f"name write hosts= and a number from 1 up, as {found['name']}:hosts=280"
        )
    return found["name"], hosts


def _of_hosts(table: dict[str, Any], hosts: int, name: str) -> dict[str, Any]:
    """A cluster file's table with so many hosts; of one host without what joins several."""
    if hosts > 1 and "network" not in table:
        pods = [one for one in preset_names() if one.startswith(f"{name}-")]
        instead = f", or name {pods[0]}:hosts={hosts}" if pods else ""
        raise UsageError(
            f"{name} has no network to join {hosts} hosts: add [network] to a file of it{instead}"
        )
    host = table.get("host", {})
    joined = () if hosts > 1 else ("network", "nic")
    kept = {key: value for key, value in table.items() if key not in joined}
    return kept | {"host": (host if isinstance(host, dict) else {}) | {"count": hosts}}


def _cluster(top: Section, name: str) -> Cluster:
    title = top.text("title", name)
    source = top.text("source", "")
    device = read_device(top.section("device"))
    host = top.section("host")
    hosts, devices = host.count("count", 1), host.count("devices", 1)
    if hosts * devices > _MOST_DEVICES:
        host.refuse("count", f"times devices is {hosts * devices}: at most {_MOST_DEVICES:,} fit")
    cores = host.number("cores") if host.has("cores") else 0.0
    inside = _inside(top, devices)
    network = _network(top, hosts, devices)
    joins = top.section("network")
    send_buffer = joins.size("send_buffer") if joins.has("send_buffer") else 0.0
    unfairness = joins.number("unfairness") if joins.has("unfairness") else 0.0
    if unfairness >= 1:
        joins.refuse("unfairness", f"is {unfairness:g}: it must be below 1")
    order = _order(top.section("placement"), hosts, devices)
    speed = _speed(top.section("speeds"), hosts, devices)
    calls = _calls(top.section("calls"))
    nccl = _nccl(top.section("nccl")) if top.has("nccl") else None
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
        nccl=nccl,
        cores=cores,
        send_buffer=send_buffer,
        unfairness=unfairness,
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


def _nccl(section: Section) -> Nccl:
    of_links = section.choice("links", get_args(DeviceLinks), "nvlink")
    between = section.choice("network", get_args(HostNetwork), "infiniband")
    return Nccl(
        generation=cast("Generation", section.choice("generation", get_args(Generation))),
        links=cast("DeviceLinks", of_links),
        network=cast("HostNetwork", between),
    )


def _call_times(table: Section) -> CallTimes:
    found = CallTimes(
        ranks=table.count("ranks", least=2),
        algorithm=table.text("algorithm", ""),
        sizes=tuple(table.listed("sizes", parse_bytes)),
        seconds=tuple(table.listed("times", parse_seconds)),
        **{key: tuple(table.listed(key, parse_seconds)) for key in _PARTS if table.has(key)},
    )
    for key in _PARTS:
        if (times := len(getattr(found, key))) not in (0, len(found.sizes)):
            table.refuse(key, f"has {times} times for {len(found.sizes)} sizes")
    if len(found.work) != len(found.rest):
        table.refuse("work", "goes with rest: give both, or neither")
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
    host: int | None
    device: int | None
    if isinstance(written, int) and not isinstance(written, bool) and written >= 0:
        host, device = divmod(written, devices)
    else:
        before, _, after = str(written).partition(".")
        host, device = whole_number(before), whole_number(after)
    if host is None or device is None or not isinstance(written, int | str):
        section.refuse(key, f"has {written!r}: a device is written as its number or 'host.device'")
    if host >= hosts or device >= devices:
        section.refuse(
            key,
            f"names device {device} of host {host}: hosts are numbered to {hosts - 1} and their "
            f"devices to {devices - 1}",
        )
    return host * devices + device
