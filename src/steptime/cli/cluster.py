"""``cluster``: What is that cluster?"""

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from steptime import files
from steptime.cli.options import Flat, PrintOptions
from steptime.cli.printing import say, say_json, writing

cluster = App(name="cluster", help="What is that cluster?")


@cluster.command
def show(
    name: Annotated[str, Parameter(name="NAME|FILE.toml")],
    /,
    *,
    output: Flat[PrintOptions] = PrintOptions(),
    svg_file: Annotated[Path | None, Parameter(name="--svg")] = None,
) -> None:
    """What is it made of, and what lies between two devices?

    Parameters
    ----------
    name
        A cluster that steptime ships (see steptime cluster list), or the file of one.
    svg_file
        Write a picture of it to this file too.

    """
    from steptime.cluster import cluster_named
    from steptime.cluster.record import record
    from steptime.report.cluster_picture import svg
    from steptime.report.cluster_table import print_cluster

    shown = cluster_named(name)
    if svg_file:
        with writing(svg_file):
            files.write_atomic(svg_file, svg(shown).encode())
    if output.json:
        say_json(record(shown))
        return
    told = output.rendered(lambda console: print_cluster(console, shown))
    say(told + (f"\n\npicture: {svg_file}" if svg_file else ""))


@cluster.command(name="list")
def list_clusters(*, output: Flat[PrintOptions] = PrintOptions()) -> None:
    """Which clusters does steptime ship?"""
    from steptime.cluster import cluster_named, preset_names
    from steptime.cluster.record import record_all
    from steptime.report.cluster_table import print_clusters

    shipped = [cluster_named(name) for name in preset_names()]
    if output.json:
        say_json(record_all(shipped))
        return
    say(output.rendered(lambda console: print_clusters(console, shipped)))
