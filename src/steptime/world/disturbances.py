"""Disturbances: what happened to the link of this rank's host, marked in its timeline."""

import os
import platform

from steptime import emulated
from steptime.timeline import Recorder


def mark_faults(recorder: Recorder) -> None:
    """Mark the faults of an emulated host's link, by the first rank of the host alone."""
    found = emulated.here()
    if found is None or os.environ.get("LOCAL_RANK", "0") != "0":
        return
    for fault in found.faults:
        if fault.host == platform.node():
            end_s = float("inf") if fault.until_s is None else fault.until_s
            recorder.disturbed(fault.what, fault.at_s, end_s)
