"""Writing a page: one HTML file that needs no network."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from steptime.files import write_atomic
from steptime.report import sections
from steptime.report.packed import packed_json, plotly_packed
from steptime.units import format_seconds

_FOLDER = Path(__file__).parent


def write_html(path: Path, template: str, context: Mapping[str, Any]) -> None:
    """Write ``html_page`` to ``path``, atomically: a page is whole or not there."""
    write_atomic(path, html_page(template, context).encode(errors="replace"))


def html_page(template: str, context: Mapping[str, Any]) -> str:
    """The page that ``template``, a file below this folder, makes of ``context``."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    of_sections = [Path(found).parent for found in sections.__path__]  # a section's HTML is there
    environment = Environment(
        loader=FileSystemLoader([_FOLDER, (_FOLDER / template).parent, *of_sections]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["seconds"] = format_seconds
    environment.filters["packed"] = packed_json
    environment.globals["plotly_packed"] = plotly_packed
    return environment.get_template(template).render(context)
