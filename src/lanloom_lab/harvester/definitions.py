"""Harvester's kinds of networks and its service accounts: by these a cluster has its network controller, or has it not.

The definitions are facts of those that Harvester ships (`crds.json`). Controller and webhook have an account each, as
Harvester's chart makes them.
"""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from lanloom.api import names
from lanloom.api.core import CRDS, NAMESPACES, SERVICE_ACCOUNTS
from lanloom.api.harvester import CLUSTER_NETWORKS, GROUP, VERSION, VLAN_CONFIGS, VLAN_STATUSES
from lanloom.kube.errors import AlreadyExists, NotFound
from lanloom.kube.ports import Client
from lanloom_embedded.schema import ACCEPT_UNENFORCED

Raw = dict[str, Any]

FACTS: dict[str, Raw] = json.loads((Path(__file__).parent / "crds.json").read_text())["kinds"]

SHARED = {kind.full_name for kind in (CLUSTER_NETWORKS, VLAN_CONFIGS, VLAN_STATUSES)}
"""The definitions that Lanloom has, too."""

PLAYED_BY = "lab.lanloom.io/harvester"
"""A label of the accounts: what the stand-in plays of Harvester where others play the rest, `manager` or `none`."""

ACCOUNTS = (names.HARVESTER_ACCOUNT, names.HARVESTER_WEBHOOK)


def definitions() -> list[Raw]:
    """Return Harvester's CustomResourceDefinitions."""
    return [_definition(plural, facts) for plural, facts in sorted(FACTS.items())]


def _definition(plural: str, facts: Raw) -> Raw:
    version: Raw = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _schema(facts["schema"])},
        "additionalPrinterColumns": [
            {"name": name, "type": "date" if name == "AGE" else "string", "jsonPath": path}
            for name, path in facts["columns"]
        ],
    }
    if facts["statusSubresource"]:
        version["subresources"] = {"status": {}}
    kind = {"plural": plural, **{key: facts[key] for key in ("kind", "singular", "shortNames")}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}", "annotations": {ACCEPT_UNENFORCED: "accept"}},
        "spec": {"group": GROUP, "names": kind, "scope": "Cluster", "versions": [version]},
    }


def _schema(fields: dict[str, Raw]) -> Raw:
    """Return the schema of fields that are listed by paths such as `.spec.nics[]`."""
    root: Raw = dict(fields["."])
    made = {"": root}
    for path, facts in sorted(fields.items()):
        if path == ".":
            continue
        made[path] = dict(facts)
        if path.endswith("[]"):
            made[path[:-2]]["items"] = made[path]
        elif path.endswith("{}"):
            made[path[:-2]]["additionalProperties"] = made[path]
        else:
            parent, _, name = path.rpartition(".")
            made[parent].setdefault("properties", {})[name] = made[path]
    return root


async def install(client: Client, *, replace: bool = True, played: str = "") -> None:
    """Make a cluster one with Harvester's controller. Raises KubeError.

    Its definitions take the place of Lanloom's only with `replace`: Harvester's chart does so where it comes first.
    """
    for manifest in definitions():
        name = manifest["metadata"]["name"]
        try:
            await client.create(CRDS, manifest)
        except AlreadyExists:
            if replace and name in SHARED:
                named = manifest["spec"]["names"] | {"categories": None}
                await client.patch(CRDS, name, {"spec": manifest["spec"] | {"names": named}})
    with suppress(AlreadyExists):
        await client.create(NAMESPACES, {"metadata": {"name": names.HARVESTER_NAMESPACE}})
    await install_accounts(client, played=played)


async def install_accounts(client: Client, *, played: str = "") -> None:
    """Make its service accounts: it comes back, or comes where its definitions are already. Raises KubeError."""
    labels = {PLAYED_BY: played} if played else {}
    for name in ACCOUNTS:
        with suppress(AlreadyExists):
            body = {"metadata": {"name": name, "labels": labels}}
            await client.create(SERVICE_ACCOUNTS, body, names.HARVESTER_NAMESPACE)


async def uninstall(client: Client) -> None:
    """Take its service accounts away; definitions, objects and webhook configurations stay. Raises KubeError."""
    for name in ACCOUNTS:
        with suppress(NotFound):
            await client.delete(SERVICE_ACCOUNTS, name, names.HARVESTER_NAMESPACE)
