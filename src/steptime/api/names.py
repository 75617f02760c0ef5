"""Models and clusters by their names and files."""

from pathlib import Path

from steptime.cluster import Cluster, cluster_named
from steptime.workloads.models import Model, model_named


def model(name: str | Path) -> Model:
    """The model of that name, or that of a file: TOML, or the config.json of Hugging Face.

    Its ``parameters`` are what is published of it; ``st.simulate`` takes it or its name. Raises
    UsageError where there is no such model or its file is wrong.

    >>> st.model("gpt2-124M").parameters
    124439808
    """
    return model_named(name)


def cluster(name: str | Path) -> Cluster:
    """The cluster of that name, or that of a TOML file: hosts, devices, links and routes.

    ``st.simulate`` takes it or its name. Raises UsageError where there is no such cluster or its
    file is wrong.

    >>> st.cluster("dgx-h100-pod").devices
    512
    """
    return cluster_named(name)
