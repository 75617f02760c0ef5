"""The formats of a run for other tools: one file a format, with its EXPORT."""

from steptime.discovery import first_lines


def formats() -> dict[str, str]:
    """What each format is, as the first line of its file says, by its name; none is imported."""
    lines = first_lines(__path__)
    return {name: line.rstrip(".") for name, line in lines.items() if name != "__init__"}
