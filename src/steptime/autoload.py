"""What torch calls at the end of ``import torch`` (entry points ``torch.backends``).

It makes the backend ``steptime`` known, so that ``init_process_group("steptime")`` works in a
script that imports nothing of ours; what the backend needs is imported when a group is made.
``TORCH_DEVICE_BACKEND_AUTOLOAD=0`` leaves it out.
"""

from typing import Any


def register() -> None:
    """Make the backend known to torch, where torch has torch.distributed."""
    import torch.distributed as dist

    if dist.is_available():
        dist.Backend.register_backend("steptime", _open, extended_api=True, devices=["cpu"])


def _open(options: Any, own_options: object) -> Any:
    from steptime.backend.open import open_group

    return open_group(options, own_options)
