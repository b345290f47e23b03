"""Build the base for Kustomize, which is deploy/ itself, and an overlay for each distribution of the chart.

The overlays are next to deploy/, because no base may contain its overlay. They use fields that the kustomize of kubectl
1.20 knows, and newer ones still do.
"""

from typing import Any

import jsonpatch
import yaml

from lanloom.processes.chart import source
from lanloom.processes.definitions import own

Raw = dict[str, Any]
Key = tuple[str, str, str, str]
_HEADER = "# Written by `make manifests` from the chart.\n"


def base() -> str:
    """Return deploy/kustomization.yaml: what the chart makes by default."""
    definitions = [f"crds/{kind.full_name}.yaml" for kind in own()]
    return _kustomization({"resources": [*definitions, *(f"{name}.yaml" for name in _defaults())]})


def overlays() -> dict[str, str]:
    """File name below overlays/ → its content."""
    found: dict[str, str] = {}
    for name in source.distributions():
        patches = {key: patch for key, patch in _patches(source.distribution(name)).items() if patch}
        body: Raw = {"bases": ["../../deploy"]}
        if patches:
            body["patchesJson6902"] = [{"target": _target(key), "path": f"{key[3]}.yaml"} for key in patches]
        found[f"{name}/kustomization.yaml"] = _kustomization(body)
        found |= {
            f"{name}/{key[3]}.yaml": _HEADER + yaml.safe_dump(patch, sort_keys=False)
            for key, patch in patches.items()
        }
    return found


def _defaults() -> tuple[str, ...]:
    return tuple(name for name in source.rendered() if name != "crds")


def _patches(values: Raw) -> dict[Key, list[Raw]]:
    """Return the JSON patch of each object for these values."""
    before, after = _objects(), _objects(values)
    assert before.keys() == after.keys(), "an overlay neither adds nor removes objects"
    return {key: list(jsonpatch.make_patch(before[key], after[key])) for key in before}


def _objects(*values: Raw) -> dict[Key, Raw]:
    documents = yaml.load_all(source.manifests(*values), yaml.CSafeLoader)
    return {
        (
            item["apiVersion"],
            item["kind"],
            item["metadata"].get("namespace", ""),
            item["metadata"]["name"],
        ): item
        for item in documents
        if item
    }


def _target(key: Key) -> Raw:
    version, kind, namespace, name = key
    group, _, version = version.rpartition("/")
    found = {"group": group, "version": version, "kind": kind, "namespace": namespace, "name": name}
    return {field: value for field, value in found.items() if value}


def _kustomization(body: Raw) -> str:
    head = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
    return _HEADER + yaml.safe_dump(head | body, sort_keys=False)
