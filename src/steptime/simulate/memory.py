"""What a simulation may take of this machine's memory."""

from pathlib import Path

from steptime.errors import UsageError
from steptime.units import format_bytes


def available() -> float:
    """Bytes that this process can still take; infinite where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return float("inf")
    fields = dict(line.split(":", 1) for line in lines)
    return 1024.0 * int(fields["MemAvailable"].split()[0])


def require(nbytes: float, what: str) -> None:
    """Raise UsageError when ``what`` takes more memory than there is."""
    there = available()
    if nbytes > there:
        raise UsageError(
            f"{what} takes about {format_bytes(nbytes)} of memory and {format_bytes(there)} are "
            "free: ask for fewer ranks or another algorithm"
        )
