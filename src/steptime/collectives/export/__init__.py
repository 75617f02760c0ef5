"""Schedules in the formats of other tools: MSCCL's XML and the GOAL text of LogGOPSim.

``program.goal`` makes the GOAL text of a whole step.
"""

from steptime.collectives.export.goal import goal_text
from steptime.collectives.export.msccl import msccl_xml

__all__ = ["goal_text", "msccl_xml"]
