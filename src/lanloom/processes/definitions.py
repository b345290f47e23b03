"""The CustomResourceDefinitions of the features: what a cluster lacks, and its installation.

Harvester and Multus define some of these kinds themselves, and their programs rely on their definitions. So a kind of
another project is created where it is missing, and changed only where Lanloom installed the definition.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Literal

from msgspec import Struct

from lanloom.api.core import CRD_OWNERS, CRDS, CustomResourceDefinition
from lanloom.api.crds import CATEGORY, manifest
from lanloom.api.resource import Resource
from lanloom.features import FEATURES
from lanloom.kube.errors import Conflict, NotFound
from lanloom.kube.patches import merge, merge_diff
from lanloom.kube.ports import Client
from lanloom.runtime.feature import Feature, rights_of

Outcome = Literal["created", "updated", "unchanged", "left alone", "being deleted"]

Raw = dict[str, Any]

_ATTEMPTS = 10
"""The API server writes the status of a definition a few times after a change."""

_FIELD_MANAGER = "lanloom"
"""The name by which API servers record Lanloom's writes: what its clients send as User-Agent."""


def own(features: Iterable[Feature] = FEATURES) -> tuple[Resource[Any], ...]:
    """Return the kinds of Lanloom."""
    return tuple(kind for feature in features for kind in rights_of(feature).own)


def foreign(features: Iterable[Feature] = FEATURES) -> tuple[Resource[Any], ...]:
    """Return the kinds of other projects, which are installed only where a cluster lacks them."""
    return tuple(kind for feature in features for kind in rights_of(feature).foreign)


def resources(features: Iterable[Feature] = FEATURES) -> tuple[Resource[Any], ...]:
    """Return the kinds that need a CRD, in the order of their installation."""
    return (*foreign(features), *own(features))


def manifests(features: Iterable[Feature] = FEATURES) -> tuple[dict[str, Any], ...]:
    """Return the CRDs of `resources`, the same in every call."""
    return tuple(manifest(resource) for resource in resources(features))


class Definition(Struct, frozen=True, kw_only=True):
    """One kind and the outcome for its definition. `maker` names the project that owns a definition left alone."""

    name: str
    outcome: Outcome
    maker: str = ""


_INSTALLERS = ("meta.helm.sh/", "objectset.rio.cattle.io/")
"""Annotations of the programs that install Harvester's definitions."""


def outcome(
    resource: Resource[Any], found: CustomResourceDefinition | None, features: Iterable[Feature] = FEATURES
) -> Outcome:
    """Return the outcome for the installed definition; None where it is missing.

    One in deletion takes no new objects, and goes with the last one of them, whatever is written to it.
    """
    if found is None:
        return "created"
    if found.metadata.is_deleting:
        return "being deleted"
    spec = found.spec
    if resource in foreign(features) and not _is_lanlooms(found):
        return "left alone"
    return "unchanged" if merge(spec, manifest(resource)["spec"]) == spec else "updated"


async def install(
    client: Client, *, dry_run: bool = False, features: tuple[Feature, ...] = FEATURES
) -> tuple[Definition, ...]:
    """Create and update the definitions of Lanloom; return the outcome of each kind, with `dry_run` as a plan.

    Raises KubeError.
    """
    return tuple(
        [
            await _install(client, resource, dry_run=dry_run, features=features)
            for resource in resources(features)
        ]
    )


async def _install(
    client: Client, resource: Resource[Any], *, dry_run: bool, features: tuple[Feature, ...]
) -> Definition:
    name, wanted = resource.full_name, manifest(resource)
    try:
        found = await client.get(CRDS, name)
    except NotFound as error:
        if not error.is_of(name):
            raise
        if not dry_run:
            await client.create(CRDS, wanted)
        return Definition(name=name, outcome="created")
    result = outcome(resource, found, features)
    if result == "updated" and not dry_run:
        version = {"metadata": {"resourceVersion": found.metadata.resource_version}}
        await client.patch(
            CRDS, name, {**version, "spec": merge_diff(found.spec, merge(found.spec, wanted["spec"]))}
        )
    if result in ("updated", "unchanged") and not dry_run:
        await _disown(client, name)
    return Definition(
        name=name, outcome=result, maker=_maker(found.metadata.labels) if result == "left alone" else ""
    )


async def _disown(client: Client, name: str) -> None:
    """Give up the fields of a definition that another program applies on the server's side, as Helm 4 does.

    That program would else be refused each later change of them, as a conflict with Lanloom.
    """
    for _ in range(_ATTEMPTS):
        metadata = (await client.get(CRD_OWNERS, name)).metadata
        others = [entry for entry in metadata.managed_fields if entry.get("manager") != _FIELD_MANAGER]
        applied = any(entry.get("operation") == "Apply" for entry in others)
        if not applied or len(others) == len(metadata.managed_fields):
            return
        fields = {"resourceVersion": metadata.resource_version, "managedFields": others}
        with suppress(Conflict):
            await client.patch(CRD_OWNERS, name, {"metadata": fields})


def _is_lanlooms(found: CustomResourceDefinition) -> bool:
    """Return whether Lanloom installed the definition, which has its category, and no other project replaced it."""
    categories = found.spec.get("names", {}).get("categories", ())
    return CATEGORY in categories and not any(
        key.startswith(_INSTALLERS) for key in found.metadata.annotations
    )


def _maker(labels: Mapping[str, str]) -> str:
    keys = ("app.kubernetes.io/part-of", "app.kubernetes.io/instance", "app.kubernetes.io/managed-by")
    return next((labels[key] for key in keys if labels.get(key)), "others")
