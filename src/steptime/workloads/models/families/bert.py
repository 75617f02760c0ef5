"""BERT, with both of its pre-training heads."""

from steptime.workloads.models.family import Family
from steptime.workloads.models.transformer import Architecture

FAMILY = Family(architecture=Architecture(fused=False, masked=True))
