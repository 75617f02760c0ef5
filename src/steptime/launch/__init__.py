"""Launch: start ranks on this host where no cluster launcher did, and collect their reports."""

from steptime.launch.job import TORCH
from steptime.launch.local import run_ranks, run_worlds
from steptime.launch.mpi import run_mpi_ranks
from steptime.launch.rank import end_rank, follow_launcher, report_error, tell_launcher

__all__ = [
    "TORCH",
    "end_rank",
    "follow_launcher",
    "report_error",
    "run_mpi_ranks",
    "run_ranks",
    "run_worlds",
    "tell_launcher",
]
