"""``history``: How did a figure change over revisions?"""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from steptime.cli.options import Flat, PrintOptions
from steptime.cli.printing import say, say_json, writing


def history(
    folder: Annotated[Path, Parameter(name="DIR")] = Path("runs"),
    /,
    *,
    figure: str = "step_time_s",
    html: Path | None = None,
    printed: Flat[PrintOptions] = PrintOptions(),
) -> None:
    """How did a figure change over revisions?

    Lists the runs of a folder by time and revision; runs of the same work on the same machine
    stand together.

    Parameters
    ----------
    folder
        What holds the runs.
    figure
        step_time_s, tokens_per_s, compute_s, exposed_comm_s, update_s or other_s; of what is
        exposed transfer_s, bubble_s, imbalance_s or dependency_s.
    html
        Also write a page that plots the figure over the revisions.

    """
    from steptime.api.histories import history as read

    found = read(folder, figure)
    if html is not None:
        with writing(html):
            found.report(html)
    if printed.json:
        say_json(found.record)
        return
    told = printed.rendered(found.print)
    say(told + (f"\npage: {html}" if html else ""))
