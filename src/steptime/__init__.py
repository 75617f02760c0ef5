"""steptime tells where the time of a distributed training step goes."""

__version__ = "0.1.0"
