"""The KubeVirt that a lab plays: its own object in the cluster says which release, and with which methods.

So the lab and Lanloom read the same object, and it may change while both run. Without one, there is no live update but
Lanloom's.
"""

from collections.abc import Iterable
from contextlib import suppress

from lanloom.api.core import NAMESPACES
from lanloom.api.kubevirtconfig import KUBEVIRTS, KubeVirt
from lanloom.kube.errors import AlreadyExists, NotFound
from lanloom.kube.ports import Client
from lanloom_lab.errors import BadOption
from lanloom_lab.kubevirt.releases import GATE, RELEASES, installation
from lanloom_lab.kubevirt.virtcontroller import Installed
from lanloom_lab.plan import UPDATE_METHODS

NAME = NAMESPACE = "kubevirt"
"""Of KubeVirt's object, as its own manifests have it."""


def installed_of(objects: Iterable[KubeVirt]) -> Installed | None:
    """Return what KubeVirt's object stands for; None without one, or for a version that the lab does not play."""
    found = next(iter(sorted(objects, key=lambda item: item.metadata.key)), None)
    if found is None:
        return None
    gate = GATE in found.spec.configuration.developer_configuration.feature_gates
    methods = found.spec.workload_update_strategy.workload_update_methods
    releases = [item for item in RELEASES.values() if item and item.version == found.status.observed_version]
    exact = [item for item in releases if item.gate == gate] or releases
    return Installed(exact[0], methods) if exact else None


def parse_methods(text: str) -> tuple[str, ...]:
    """Read methods of updating workloads, with commas between. Raises BadOption."""
    methods = tuple(filter(None, text.split(",")))
    if unknown := [item for item in methods if item not in UPDATE_METHODS]:
        raise BadOption(
            f"{unknown[0]!r} is no method of updating workloads", f"Name some of {', '.join(UPDATE_METHODS)}."
        )
    return methods


async def install(client: Client, release: str, methods: tuple[str, ...]) -> None:
    """Make KubeVirt's object that of a release, or delete it for `none`. Raises KubeError."""
    played = RELEASES[release]
    if played is None:
        for item in (await client.list(KUBEVIRTS)).items:
            with suppress(NotFound):
                await client.delete(KUBEVIRTS, item.metadata.name, item.metadata.namespace)
        return
    with suppress(AlreadyExists):
        await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    body = installation(played, methods)
    try:
        await client.create(KUBEVIRTS, body, NAMESPACE)
    except AlreadyExists:
        # A merge patch takes away by null what the release before had.
        configuration = {"developerConfiguration": None} | body["spec"]["configuration"]
        spec = body["spec"] | {"configuration": configuration}
        await client.patch(KUBEVIRTS, NAME, {"spec": spec}, NAMESPACE)
    await client.patch(KUBEVIRTS, NAME, {"status": body["status"]}, NAMESPACE, subresource="status")


def describe(objects: Iterable[KubeVirt]) -> str:
    """Return in words what runs."""
    found = list(objects)
    installed = installed_of(found)
    if not found:
        return "no KubeVirt: Lanloom does all"
    if installed is None:
        version = found[0].status.observed_version or "without a version"
        return f"KubeVirt {version}, which the lab does not play"
    gate = f" with the feature gate {GATE}" if installed.release.gate else ""
    methods = ", ".join(installed.methods) or "none"
    return f"KubeVirt {installed.release.version}{gate}, workloadUpdateMethods: {methods}"
