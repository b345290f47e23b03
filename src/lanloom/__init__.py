"""Lanloom: real networks for the virtual machines of a Kubernetes cluster."""

__version__ = "0.2.0"
