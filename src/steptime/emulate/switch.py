"""Switch: the first process of an emulated cluster. It makes hosts and links, and runs a command.

Started by ``emulate`` within namespaces that end with it. What it finds out goes, as one JSON
object, to the socket whose descriptor is its second argument; the first is the plan.
"""

import json
import os
import signal
import socket
import sys
from hashlib import md5
from pathlib import Path
from typing import Any

import msgspec

from steptime import clock, emulated
from steptime.emulate.ceiling import check_ceiling, measured_ceiling
from steptime.emulate.disturbing import Disturbing
from steptime.emulate.namespaces import bind, mount_memory, new_host
from steptime.emulate.plan import Plan
from steptime.emulate.processes import start, wanted, watch
from steptime.emulate.remote import on_terminal
from steptime.emulate.tcp import settings
from steptime.emulate.told import Told, kept_file
from steptime.emulate.wires import Wires, nft_program
from steptime.errors import SteptimeError


def main() -> int:
    """Do what the plan says; 0 when it could be done, whatever the command's own status is."""
    plan = msgspec.json.decode(sys.argv[1], type=Plan)
    control = socket.socket(fileno=int(sys.argv[2]))
    control.set_inheritable(False)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the command hears of them, and then ends
    try:
        answer = _run(plan, control)
    except SteptimeError as error:
        answer = {"error": str(error), "exit_code": error.exit_code}
    except OSError as error:
        why = f"cannot set up the emulated cluster: {error}"
        answer = {"error": why, "exit_code": SteptimeError.exit_code}
    control.sendall(json.dumps(answer).encode())
    return 0


def _run(plan: Plan, control: socket.socket) -> dict[str, Any]:
    os.chdir(plan.folder)
    if any(fault.kind == "loss" for fault in plan.faults):
        nft_program()
    _names(plan)
    holders = {
        host.name: new_host(
            host.name,
            md5(host.name.encode()).hexdigest(),  # noqa: S324
            settings(host, plan.congestion, plan.dilation),
        )
        for host in plan.hosts
    }
    wires = Wires(holders)
    for host in plan.hosts:
        wires.connect(host)
    ceiling, latency = measured_ceiling(plan, holders)
    check_ceiling(plan, ceiling)
    for host in plan.hosts:
        wires.shape(host)
    before = wires.carried(plan.hosts)
    disturbing = Disturbing(plan, wires, Told(plan, holders))
    common = environment(plan, disturbing.told)
    if plan.command:
        running = []
        for one in wanted(plan):
            try:
                running.append(start(one, plan, holders[one.host.name], common))
            except OSError as error:
                raise SteptimeError(f"cannot start {plan.command[0]}: {error.strerror}") from None
        status = watch(running, control, disturbing.due)
    else:
        status = on_terminal(plan.hosts[0].name, common)
    carried = wires.carried(plan.hosts)
    return {
        "status": status,
        "ceiling": ceiling,
        "latency": latency,
        "bytes": {name: carried[name] - before[name] for name in carried},
        "faults": disturbing.told.faults,
    }


def _names(plan: Plan) -> None:
    """Let all hosts know each other's names."""
    shared = "/dev/shm"  # noqa: S108  (the mount point)
    mount_memory(shared)
    lines = ["127.0.0.1 localhost", "::1 localhost", "::ffff:127.0.0.1 localhost"]
    for host in plan.hosts:  # torch asks who called by the address that an IPv6 socket shows
        lines += [f"{host.address} {host.name}", f"::ffff:{host.address} {host.name}"]
    file = Path(shared, "hosts")
    file.write_text("".join(f"{line}\n" for line in lines))
    bind(file, "/etc/hosts")


def environment(plan: Plan, told: Told) -> dict[str, str]:
    """What the environment of every process there says: where hosts are, and which link to take.

    mpirun reaches hosts by the ``ssh`` that stands first in PATH, and finds their names in a file.
    """
    names = "".join(f"{host.name}:{len(host.ranks)}\n" for host in plan.hosts)
    at = kept_file("hosts", names)
    kept = {
        key: text
        for key, text in os.environ.items()
        if key not in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
    }
    stand_ins, programs = Path(__file__).parent / "bin", str(Path(sys.executable).parent)
    return {
        **kept,
        emulated.VARIABLE: told.path,
        clock.VARIABLE: f"{plan.dilation:g}",
        "STEPTIME_PYTHON": sys.executable,
        "STEPTIME_HOSTS": ",".join(host.name for host in plan.hosts),
        "PATH": os.pathsep.join((str(stand_ins), os.environ.get("PATH", os.defpath), programs)),
        "STEPTIME_SOCKET_IFNAME": ",".join(rail.interface for rail in plan.hosts[0].rails),
        "GLOO_SOCKET_IFNAME": "eth0",
        "NCCL_SOCKET_IFNAME": "eth0",
        "TP_SOCKET_IFNAME": "eth0",
        "HYDRA_HOST_FILE": at,
        "HYDRA_IFACE": "eth0",
        "PRTE_MCA_prte_default_hostfile": at,
        "OMPI_MCA_orte_default_hostfile": at,
        "OMPI_MCA_btl_tcp_if_include": "eth0",
    }


if __name__ == "__main__":
    sys.exit(main())
