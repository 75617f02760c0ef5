"""The steps of the C++ proxies spcl/DNN-cpp-proxies, call by call: to compare with theirs."""

from steptime.workloads.compat.original import Original, compat, compat_named, compat_names

__all__ = ["Original", "compat", "compat_named", "compat_names"]
