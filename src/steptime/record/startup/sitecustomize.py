"""Starts the recording of any Python process that inherits the variable; inert without it."""

import importlib.machinery
import importlib.util
import os
import sys

if "STEPTIME_RECORD" in os.environ:
    # steptime is found where the recording process found it; the script's own path stays as it is.
    sys.path.insert(0, os.environ["STEPTIME_RECORD_PATH"])
    from steptime.record.start import start_from_environment

    del sys.path[0]
    start_from_environment()

# Another sitecustomize, which this one hides, runs too.
_here = __file__.rpartition("/")[0]
_path = [folder for folder in sys.path if folder != _here]
_other = importlib.machinery.PathFinder.find_spec("sitecustomize", _path)
if _other is not None and _other.loader is not None:
    _other.loader.exec_module(importlib.util.module_from_spec(_other))
