"""The steps of spcl/DNN-cpp-proxies, call by call: to compare with its figures and to verify."""

from steptime.workloads.compat.original import Original, compat, compat_named, compat_names

__all__ = ["Original", "compat", "compat_named", "compat_names"]
