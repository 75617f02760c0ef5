"""What the dispatcher calls for an operator of c10d, in C++ where that was built.

``python -m steptime.record.dispatch`` builds it, in a quarter of a minute, for the torch that is
installed: it needs torch's own headers, and serves no other release. Without it calls go through
Python, which costs some ten microseconds more each.
"""

import os
from typing import Any

import torch

from steptime.record.rows import in_c

try:
    from steptime.record import _dispatch
except ImportError:  # not built, or for another Python or torch
    _dispatch = None  # type: ignore[assignment]


def in_dispatcher() -> Any:
    """The module that records within the dispatcher; None where this process has none."""
    if _dispatch is None or not in_c() or os.environ.get("STEPTIME_KERNEL") == "c":
        return None
    fits = _dispatch.torch == str(torch.__version__).partition("+")[0]
    return _dispatch if fits else None
