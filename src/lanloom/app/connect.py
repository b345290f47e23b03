"""How every command reaches its API server."""

from lanloom.kube.config import load
from lanloom.kube.http import HttpClient, Observer


def connect(kubeconfig: str | None, observe: Observer | None = None) -> HttpClient:
    """The client for the cluster that `kubeconfig`, or the environment, names. Raises ConfigError."""
    return HttpClient(load(kubeconfig), observe=observe)
