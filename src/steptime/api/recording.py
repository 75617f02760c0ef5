"""``steptime.record`` and ``steptime.step``: any script of yours, and where its steps end."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from steptime.runs import run_folder


def record(folder: str | Path | None = None) -> Path:
    """Record this process from now on: every call of torch.distributed, and the parts of its steps.

    ``folder``: that of the run, the same for all ranks; default: runs/record-TIME. ``st.load``
    reads it when the script has ended. Needs torch. Raises UsageError where the folder cannot be
    written.

    >>> import torch
    >>> folder = st.record("runs/mine")
    >>> optimizer = torch.optim.SGD([torch.zeros(2, requires_grad=True)])
    >>> for _ in range(3):
    ...     with st.step():
    ...         optimizer.step()
    """
    from steptime.record.start import start

    out = Path(folder) if folder else run_folder.default_path("record", datetime.now())
    start(run_folder.create(out))
    return out


@contextmanager
def step() -> Iterator[None]:
    """Count what runs inside the block as one step of a recorded script.

    Without it a step ends where the first optimizer has stepped.
    """
    from steptime.record.start import end_step

    yield
    end_step()
