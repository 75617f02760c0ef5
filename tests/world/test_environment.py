"""Environments as the launchers set them, recorded from runs, and the traps among them."""

import subprocess
from dataclasses import replace
from shutil import which

import pytest

from steptime.errors import UsageError
from steptime.world import SINGLE, World, check_ranks, detect
from steptime.world.rendezvous import contract

TORCHRUN = {
    "RANK": "5",
    "WORLD_SIZE": "8",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "4",
    "GROUP_RANK": "1",
    "GROUP_WORLD_SIZE": "2",
    "ROLE_RANK": "5",
    "ROLE_WORLD_SIZE": "8",
    "ROLE_NAME": "default",
    "MASTER_ADDR": "node1",
    "MASTER_PORT": "29400",
    "TORCHELASTIC_USE_AGENT_STORE": "True",
    "TORCHELASTIC_RUN_ID": "none",
    "TORCHELASTIC_RESTART_COUNT": "0",
}
STEPTIME = {
    "RANK": "0",
    "WORLD_SIZE": "2",
    "LOCAL_RANK": "0",
    "LOCAL_WORLD_SIZE": "2",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "40001",
    "STEPTIME_LAUNCHER": "7",
    "STEPTIME_LISTENER": "6",
}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "3",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    "OMPI_COMM_WORLD_NODE_RANK": "1",
    "PMIX_RANK": "3",
    "PRTE_LAUNCHED": "1",
}
HYDRA = {
    "PMI_RANK": "1",
    "PMI_SIZE": "2",
    "PMI_FD": "11",
    "PMI_HOSTNAME": "node1",
    "MPI_LOCALRANKID": "1",
    "MPI_LOCALNRANKS": "2",
}
BATCH_SHELL = {
    "SLURM_JOB_ID": "60004",
    "SLURM_PROCID": "0",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "0",
    "SLURM_NTASKS": "4",
    "SLURM_NPROCS": "4",
    "SLURM_TASKS_PER_NODE": "3,1",
    "SLURM_JOB_NODELIST": "n[1-2]",
    "SLURMD_NODENAME": "n1",
}
SRUN = BATCH_SHELL | {
    "SLURM_PROCID": "3",
    "SLURM_NODEID": "1",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_STEP_TASKS_PER_NODE": "3,1",
    "SLURM_STEP_NODELIST": "n[1-2]",
    "SLURM_LAUNCH_NODE_IPADDR": "10.0.0.9",
}
FLUX = {
    "FLUX_JOB_ID": "f2Tw",
    "FLUX_TASK_RANK": "3",
    "FLUX_TASK_LOCAL_ID": "1",
    "FLUX_JOB_SIZE": "5",
    "FLUX_JOB_NNODES": "2",
}
PALS = {
    "PALS_RANKID": "3",
    "PALS_LOCAL_RANKID": "1",
    "PMI_RANK": "3",
    "PMI_SIZE": "4",
    "PMI_LOCAL_RANK": "1",
    "PMI_LOCAL_SIZE": "2",
}
"""Of Flux and PALS as their documentation and sources name them, not recorded from runs."""

SRUN_WORLD = World(
    rank=3,
    size=4,
    local_rank=0,
    local_size=1,
    launcher="srun",
    address="n1",
    port=20004,
)

WORLDS = {
    "torchrun": (
        TORCHRUN,
        World(
            rank=5,
            size=8,
            local_rank=1,
            local_size=4,
            launcher="torchrun",
            address="node1",
            port=29400,
            agent_listens=True,
        ),
    ),
    "torchrun's contract set by hand, where rank 0 listens": (
        {name: TORCHRUN[name] for name in TORCHRUN if not name.startswith("TORCHELASTIC_")},
        World(
            rank=5,
            size=8,
            local_rank=1,
            local_size=4,
            launcher="torchrun",
            address="node1",
            port=29400,
        ),
    ),
    "steptime": (
        STEPTIME,
        World(
            rank=0,
            size=2,
            local_rank=0,
            local_size=2,
            launcher="steptime",
            address="127.0.0.1",
            port=40001,
            listener=6,
        ),
    ),
    "Open MPI": (
        OPEN_MPI,
        World(rank=3, size=4, local_rank=1, local_size=2, launcher="mpirun"),
    ),
    "Open MPI told where to meet": (
        OPEN_MPI | {"MASTER_ADDR": "node1", "MASTER_PORT": "29400"},
        World(
            rank=3,
            size=4,
            local_rank=1,
            local_size=2,
            launcher="mpirun",
            address="node1",
            port=29400,
        ),
    ),
    "hydra": (HYDRA, World(rank=1, size=2, local_rank=1, local_size=2, launcher="mpirun")),
    "PMI alone": (
        {"PMI_RANK": "1", "PMI_SIZE": "2"},
        World(rank=1, size=2, local_rank=0, local_size=1, launcher="mpirun"),
    ),
    "srun": (SRUN, SRUN_WORLD),
    "srun --mpi=pmi2": (SRUN | {"PMI_RANK": "3", "PMI_SIZE": "4"}, SRUN_WORLD),
    "Open MPI's daemon started by srun": (
        SRUN | {"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2"} | OPEN_MPI,
        World(rank=3, size=4, local_rank=1, local_size=2, launcher="mpirun"),
    ),
    "hydra's daemon started by srun": (
        SRUN | {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "2"} | HYDRA,
        World(rank=1, size=2, local_rank=1, local_size=2, launcher="mpirun"),
    ),
    "torchrun on every node started by srun": (
        SRUN | {"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2"} | TORCHRUN,
        World(
            rank=5,
            size=8,
            local_rank=1,
            local_size=4,
            launcher="torchrun",
            address="node1",
            port=29400,
            agent_listens=True,
        ),
    ),
    "mpirun inside a pod that numbers the nodes": (
        HYDRA | {"RANK": "0", "WORLD_SIZE": "1"},
        World(rank=1, size=2, local_rank=1, local_size=2, launcher="mpirun"),
    ),
    "a step on some of the job's nodes": (
        SRUN
        | {
            "SLURM_PROCID": "0",
            "SLURM_NODEID": "0",
            "SLURM_STEP_NUM_TASKS": "2",
            "SLURM_STEP_TASKS_PER_NODE": "2",
            "SLURM_STEP_NODELIST": "n2",
        },
        World(
            rank=0,
            size=2,
            local_rank=0,
            local_size=2,
            launcher="srun",
            address="n2",
            port=20004,
        ),
    ),
    "a script that srun starts and that sets torchrun's contract": (
        SRUN | {name: TORCHRUN[name] for name in TORCHRUN if "ELASTIC" not in name} | {"RANK": "3"},
        World(
            rank=3,
            size=8,
            local_rank=1,
            local_size=4,
            launcher="srun",
            address="node1",
            port=29400,
        ),
    ),
    "flux run on a host": (
        FLUX | {"FLUX_JOB_NNODES": "1"},
        World(rank=3, size=5, local_rank=1, local_size=5, launcher="flux"),
    ),
    "flux run, whose broker srun started": (
        SRUN | FLUX | {"PMI_RANK": "3", "PMI_SIZE": "5"},
        World(rank=3, size=5, local_rank=1, local_size=3, launcher="flux"),
    ),
    "PALS, which PBS has on HPE Cray": (
        PALS,
        World(rank=3, size=4, local_rank=1, local_size=2, launcher="mpirun"),
    ),
    "sbatch outside srun": (BATCH_SHELL, None),
    "the shell of salloc": (
        SRUN
        | {
            "SLURM_PROCID": "0",
            "SLURM_STEP_ID": "4294967290",
            "SLURM_STEP_NUM_TASKS": "1",
            "SLURM_PTY_PORT": "34899",
        },
        None,
    ),
    "no launcher": ({"HOME": "/root", "MASTER_PORT": "29400", "WORLD_SIZE": "4"}, None),
}


@pytest.mark.parametrize(("environ", "world"), WORLDS.values(), ids=WORLDS)
def test_every_launcher_is_recognised(environ: dict[str, str], world: World | None) -> None:
    assert detect(environ) == world


@pytest.mark.parametrize(
    ("tasks", "sizes"),
    [("4", [4]), ("3,1", [3, 1]), ("2(x3),1", [2, 2, 2, 1]), ("1,4(x2)", [1, 4, 4])],
)
def test_slurm_ranks_on_each_host(tasks: str, sizes: list[int]) -> None:
    for node, size in enumerate(sizes):
        world = detect(SRUN | {"SLURM_STEP_TASKS_PER_NODE": tasks, "SLURM_NODEID": str(node)})
        assert world is not None
        assert world.local_size == size


@pytest.mark.parametrize(
    ("hosts", "first"),
    [
        ("solo", "solo"),
        ("n[1-2]", "n1"),
        ("n[007-012,15],login", "n007"),
        ("login,n[07-12,15]", "login"),
        ("n[9,11-12]", "n9"),
        ("gpu-a[3,5]", "gpu-a3"),
        ("rack[2-3]n[09-12]", "rack2n09"),
    ],
)
def test_slurm_address_is_the_first_host_of_the_step(hosts: str, first: str) -> None:
    world = detect(SRUN | {"SLURM_STEP_NODELIST": hosts})
    assert world is not None
    assert world.address == first


@pytest.mark.skipif(not which("scontrol"), reason="scontrol (package slurm-wlm) is not installed")
def test_slurm_lists_its_hosts_in_the_same_order(tmp_path) -> None:
    (tmp_path / "slurm.conf").write_text("ClusterName=none\nSlurmctldHost=none\n")
    for hosts in ("n[007-012,15],login", "login,n[07-12,15]", "n[9,11-12]"):
        expanded = subprocess.run(
            ["scontrol", "show", "hostnames", hosts],
            env={"PATH": "/usr/bin:/bin", "SLURM_CONF": str(tmp_path / "slurm.conf")},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        world = detect(SRUN | {"SLURM_STEP_NODELIST": hosts})
        assert world is not None
        assert world.address == expanded[0]


def test_slurm_can_be_told_where_to_meet() -> None:
    world = detect(SRUN | {"MASTER_ADDR": "ib0-n1", "MASTER_PORT": "29400"})
    assert world is not None
    assert (world.address, world.port) == ("ib0-n1", 29400)


@pytest.mark.parametrize(
    ("environ", "size"), [(TORCHRUN, "LOCAL_WORLD_SIZE"), (SRUN, "TASKS_PER_NODE")]
)
def test_a_host_of_unknown_size_is_not_taken_for_the_only_one(
    environ: dict[str, str], size: str
) -> None:
    world = detect({name: environ[name] for name in environ if not name.endswith(size)})
    assert world is not None
    assert world.local_size == world.local_rank + 1
    assert not world.one_host


def test_ranks_that_count_nodes_are_refused_with_what_is_missing() -> None:
    pod = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "pod-0", "MASTER_PORT": "29400"}
    with pytest.raises(UsageError, match="sets RANK but not LOCAL_RANK: start the ranks with"):
        detect(pod)
    with pytest.raises(UsageError, match="not WORLD_SIZE and LOCAL_RANK and MASTER_ADDR and MAST"):
        detect({"RANK": "1"})
    with pytest.raises(UsageError, match="sets RANK but not LOCAL_RANK"):
        detect(BATCH_SHELL | pod)


@pytest.mark.parametrize(
    ("environ", "sentence"),
    [
        (TORCHRUN | {"RANK": "one"}, "sets RANK to 'one', not to a number"),
        (TORCHRUN | {"RANK": "8"}, "torchrun numbers this process rank 8 of 8 ranks"),
        ({"OMPI_COMM_WORLD_RANK": "0"}, "did not set OMPI_COMM_WORLD_SIZE"),
        (HYDRA | {"MASTER_ADDR": "node1"}, "MASTER_ADDR is set but not MASTER_PORT"),
        (HYDRA | {"MASTER_PORT": "29400"}, "MASTER_PORT is set but not MASTER_ADDR"),
        ({name: SRUN[name] for name in SRUN if "NODELIST" not in name}, "did not set SLURM_JOB_NO"),
    ],
)
def test_an_environment_that_makes_no_sense_is_refused(
    environ: dict[str, str], sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence):
        detect(environ)


def test_a_script_gets_what_torchrun_would_set() -> None:
    assert contract(SRUN_WORLD) == {
        "RANK": "3",
        "WORLD_SIZE": "4",
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "MASTER_ADDR": "n1",
        "MASTER_PORT": "20004",
    }
    both = [
        replace(SINGLE, rank=rank, size=2, local_size=2, address=None, port=None) for rank in (0, 1)
    ]
    meeting = [{k: v for k, v in contract(one).items() if "MASTER" in k} for one in both]
    assert meeting[0] == meeting[1]
    assert meeting[0]["MASTER_ADDR"] == "127.0.0.1"
    assert 10000 <= int(meeting[0]["MASTER_PORT"]) < 30000
    world = detect(TORCHRUN)
    assert world is not None
    assert contract(world) == {}
    world = detect(HYDRA | {"MPI_LOCALNRANKS": "1", "MPI_LOCALRANKID": "0"})
    assert world is not None
    with pytest.raises(
        UsageError, match="on several hosts and named no address of rank 0: set MAS"
    ):
        contract(world)


def test_ranks_must_agree_with_the_launcher() -> None:
    check_ranks(SRUN_WORLD, None)
    check_ranks(SRUN_WORLD, 4)
    check_ranks(SINGLE, 1)
    with pytest.raises(UsageError, match="--ranks 2 disagrees with srun, which started 4: leave"):
        check_ranks(SRUN_WORLD, 2)
