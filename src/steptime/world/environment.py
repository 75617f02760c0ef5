"""World: this process's rank and size, read from the launcher's environment variables alone.

torchrun, mpirun (Open MPI; MPICH and Intel MPI, whose launcher is hydra; HPE Cray's PALS, which PBS
has there), srun, flux run and steptime's own spawner each set other variables. All of them become
one World here. PBS itself starts one shell, and mpirun the ranks within it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from steptime.errors import SteptimeError, UsageError
from steptime.limits import whole_number

Launcher: TypeAlias = Literal["torchrun", "mpirun", "srun", "flux", "steptime", "single"]

LAUNCHER_VARIABLE = "STEPTIME_LAUNCHER"
"""Set by steptime's own spawner: the file descriptor of the rank's socket to it."""

LISTENER_VARIABLE = "STEPTIME_LISTENER"
"""Set by steptime's own spawner for rank 0: the file descriptor of a listening socket."""

_TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


class LostContactError(SteptimeError):
    """Another rank died or hangs; any other error of another rank is the likelier cause."""


@dataclass(frozen=True, kw_only=True)
class World:
    """The place of this process among the ranks."""

    rank: int
    size: int
    local_rank: int
    """Rank within this host; 0 where the launcher does not say."""

    local_size: int
    """Ranks on this host; where the launcher does not say, the fewest there can be."""

    launcher: Launcher
    address: str | None = None
    """Host where rank 0 listens; None: the launcher names none and the ranks agree on one."""

    port: int | None = None
    """Port where rank 0 listens; 0: any free one."""

    listener: int | None = None
    """File descriptor of the socket that rank 0 inherited, already listening on that port."""

    agent_listens: bool = False
    """torchrun's agent listens at the address and port instead of rank 0."""

    restarts: int = 0
    """How often torchrun's agent, whose store stays the same, has started the ranks again."""

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.size:
            raise UsageError(
                f"{self.launcher} numbers this process rank {self.rank} of {self.size} ranks: "
                "ranks count from 0 to one less than their number"
            )

    @property
    def one_host(self) -> bool:
        """Whether all ranks are known to be on this host."""
        return self.local_size == self.size


SINGLE = World(
    rank=0, size=1, local_rank=0, local_size=1, launcher="single", address="127.0.0.1", port=0
)
"""The world of a process that no launcher started and that starts no ranks itself."""


def detect(environ: Mapping[str, str]) -> World | None:
    """The world that the launcher of this process set up, or None when no launcher did.

    MPI's variables come before Slurm's: inside a Slurm job mpirun starts its daemons with srun, and
    every rank then sees the SLURM_PROCID of its daemon. So do Flux's, whose brokers srun may start,
    and whose tasks have variables of PMI too.

    Raises UsageError when the variables contradict each other or some are missing.
    """
    for read in (_read_torchrun, _read_open_mpi, _read_hydra, _read_flux, _read_slurm, _read_pmi):
        world = read(environ)
        if world is not None:
            return world
    if environ.get("RANK"):
        # Kubeflow and some clouds set RANK and WORLD_SIZE for a node, not for a process.
        missing = " and ".join(name for name in _TORCHRUN if not environ.get(name))
        raise UsageError(
            f"the environment sets RANK but not {missing}: start the ranks with torchrun, mpirun "
            "or srun, or unset RANK to start them here"
        )
    return None


def check_ranks(world: World, ranks: int | None) -> None:
    """Raise UsageError when ``--ranks`` is given and differs from the number that was started."""
    if ranks is not None and ranks != world.size:
        raise UsageError(
            f"--ranks {ranks} disagrees with {world.launcher}, which started {world.size}: "
            f"leave --ranks out, or start {ranks} ranks"
        )


def _read_torchrun(environ: Mapping[str, str]) -> World | None:
    if not all(environ.get(name) for name in _TORCHRUN):
        return None
    local_rank = _number(environ, "LOCAL_RANK")
    return World(
        rank=_number(environ, "RANK"),
        size=_number(environ, "WORLD_SIZE"),
        local_rank=local_rank,
        local_size=_number(environ, "LOCAL_WORLD_SIZE", default=local_rank + 1),
        launcher=_launcher(environ),
        address=environ["MASTER_ADDR"],
        port=_number(environ, "MASTER_PORT"),
        listener=_number(environ, LISTENER_VARIABLE) if LISTENER_VARIABLE in environ else None,
        agent_listens=environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True",
        restarts=_number(environ, "TORCHELASTIC_RESTART_COUNT", default=0),
    )


def _launcher(environ: Mapping[str, str]) -> Launcher:
    """Who set torchrun's contract: torchrun, our own spawner, or a script that srun started."""
    if LAUNCHER_VARIABLE in environ:
        return "steptime"
    of_step = "SLURM_STEP_ID" in environ and environ.get("SLURM_PROCID") == environ["RANK"]
    return "srun" if of_step and "TORCHELASTIC_RUN_ID" not in environ else "torchrun"


def _read_open_mpi(environ: Mapping[str, str]) -> World | None:
    # OMPI_COMM_WORLD_NODE_RANK is no index of the node: it is the rank within the node.
    prefix = "OMPI_COMM_WORLD_"
    local = ((f"{prefix}LOCAL_RANK",), (f"{prefix}LOCAL_SIZE",))
    return _read_mpi(environ, f"{prefix}RANK", f"{prefix}SIZE", *local)


def _read_hydra(environ: Mapping[str, str]) -> World | None:
    return _read_pmi(environ) if environ.get("MPI_LOCALRANKID") else None


def _read_pmi(environ: Mapping[str, str]) -> World | None:
    local = (
        ("MPI_LOCALRANKID", "PMI_LOCAL_RANK", "PALS_LOCAL_RANKID"),
        ("MPI_LOCALNRANKS", "PMI_LOCAL_SIZE", "PALS_LOCAL_SIZE"),
    )
    return _read_mpi(environ, "PMI_RANK", "PMI_SIZE", *local)


def _read_flux(environ: Mapping[str, str]) -> World | None:
    # Flux tells the nodes of a job, and not how many ranks each has: evenly, as a rule.
    names = ("FLUX_TASK_RANK", "FLUX_JOB_SIZE", ("FLUX_TASK_LOCAL_ID",), ())
    world = _read_mpi(environ, *names)
    if world is None:
        return None
    nodes = _number(environ, "FLUX_JOB_NNODES", default=world.size)
    most = world.size if nodes == 1 else max(world.size - 1, 1)
    each = max(world.local_rank + 1, -(-world.size // max(nodes, 1)))
    return replace(world, launcher="flux", local_size=min(each, most))


def _read_mpi(
    environ: Mapping[str, str],
    rank: str,
    size: str,
    local_ranks: Sequence[str],
    local_sizes: Sequence[str],
) -> World | None:
    if not environ.get(rank):
        return None
    address, port = environ.get("MASTER_ADDR"), environ.get("MASTER_PORT")
    if bool(address) != bool(port):
        given, missing = ("MASTER_ADDR", "MASTER_PORT")[:: 1 if address else -1]
        raise UsageError(f"{given} is set but not {missing}: give mpirun both or neither")
    within_host = _number(environ, *local_ranks, default=0)
    return World(
        rank=_number(environ, rank),
        size=_number(environ, size),
        local_rank=within_host,
        local_size=_number(environ, *local_sizes, default=within_host + 1),
        launcher="mpirun",
        address=address or None,
        port=_number(environ, "MASTER_PORT") if port else None,
    )


def _read_slurm(environ: Mapping[str, str]) -> World | None:
    # Without SLURM_STEP_ID this is the shell of a batch script, which has a SLURM_PROCID too.
    if not (environ.get("SLURM_PROCID") and environ.get("SLURM_STEP_ID")):
        return None
    size = _number(environ, "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")
    if size == 1 and "SLURM_PTY_PORT" in environ:
        return None  # an interactive shell, of srun --pty or of salloc
    local_rank = _number(environ, "SLURM_LOCALID")
    tasks = environ.get("SLURM_STEP_TASKS_PER_NODE") or environ.get("SLURM_TASKS_PER_NODE", "")
    port = 10000 + _number(environ, "SLURM_JOB_ID", "SLURM_JOBID") % 50000
    return World(
        rank=_number(environ, "SLURM_PROCID"),
        size=size,
        local_rank=local_rank,
        local_size=_tasks_of_node(tasks, _number(environ, "SLURM_NODEID", default=0))
        or local_rank + 1,
        launcher="srun",
        address=environ.get("MASTER_ADDR")
        or _first_host(_text(environ, "SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST")),
        port=_number(environ, "MASTER_PORT", default=port),
    )


def _first_host(hosts: str) -> str:
    """``n07`` of ``n[07-12,15],login``, as ``scontrol show hostnames`` would print it first."""
    return re.sub(r"\[([^],-]+)[^]]*\]", r"\1", re.split(r",(?![^[]*\])", hosts)[0])


def _tasks_of_node(tasks: str, node: int) -> int | None:
    """SLURM_TASKS_PER_NODE for one node: the third number, for ``node`` 2, of ``2(x2),1``."""
    groups = re.findall(r"(\d+)(?:\(x(\d+)\))?", tasks)
    each = [int(count) for count, nodes in groups for _ in range(int(nodes or 1))]
    return each[node] if node < len(each) else None


def _text(environ: Mapping[str, str], *names: str) -> str:
    """The first of the variables ``names`` that is set."""
    for name in names:
        if environ.get(name):
            return environ[name]
    raise UsageError(
        f"the launcher of this process did not set {names[-1]}: start the ranks with torchrun, "
        "mpirun or srun"
    )


def _number(environ: Mapping[str, str], *names: str, default: int | None = None) -> int:
    if default is not None and not any(environ.get(name) for name in names):
        return default
    text = _text(environ, *names)
    number = whole_number(text)
    if number is None:
        raise UsageError(f"the environment sets {' or '.join(names)} to '{text}', not to a number")
    return number
