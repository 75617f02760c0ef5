"""The HTML page of a run: one self-contained file that needs no network."""

from steptime.report.page import write_report

__all__ = ["write_report"]
