"""The client of every command for its API server."""

from lanloom.kube.config import load
from lanloom.kube.http import HttpClient, Observer
from lanloom.kube.outage import Outage


def connect(kubeconfig: str | None, observe: Observer | None = None, *, logs: bool = False) -> HttpClient:
    """Return the client for the cluster that `kubeconfig`, or the environment, names. Raises ConfigError.

    With `logs` the log says when the API server goes away and when it is back: that is for processes that stay.
    """
    config = load(kubeconfig)
    return HttpClient(config, observe=observe, outage=Outage(config.server) if logs else None)
