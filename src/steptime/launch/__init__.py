"""Starting ranks on this host when no launcher of the cluster has, and what they report back."""

from steptime.launch.local import run_ranks
from steptime.launch.mpi import run_mpi_ranks
from steptime.launch.rank import end_rank, follow_launcher, report_error, tell_launcher

__all__ = [
    "end_rank",
    "follow_launcher",
    "report_error",
    "run_mpi_ranks",
    "run_ranks",
    "tell_launcher",
]
