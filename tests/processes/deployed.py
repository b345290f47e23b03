"""The objects of deploy/, as tests read them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
Raw = dict[str, Any]


def documents() -> Iterator[Raw]:
    """Every object of deploy/, apart from the CRDs."""
    for path in sorted({*(ROOT / "deploy").glob("*.yaml")} - {ROOT / "deploy/kustomization.yaml"}):
        yield from yaml.load_all(path.read_text(), yaml.CSafeLoader)


def pod(process: str) -> Raw:
    """The pod template of a process."""
    (found,) = [
        item
        for item in documents()
        if item["kind"] in ("Deployment", "DaemonSet") and item["metadata"]["name"] == f"lanloom-{process}"
    ]
    template: Raw = found["spec"]["template"]
    return template
