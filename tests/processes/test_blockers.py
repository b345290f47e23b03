"""What is said of the deletion of any object."""

from typing import Any

import pytest

from lanloom.api.core import CRDS
from lanloom.api.meta import Key, Object, ObjectMeta, OwnerReference
from lanloom.api.resource import Resource
from lanloom.features import FEATURES
from lanloom.processes.blockers import Target, controller_notes, explain, refusal
from lanloom.processes.definitions import resources
from lanloom.runtime.feature import deletion_questions_of
from lanloom_embedded.local import LocalClient
from tests.processes.test_manager import server

ASKED = tuple(dict.fromkeys(each.resource for each in deletion_questions_of(FEATURES)))
SPECS: dict[str, dict[str, Any]] = {
    "LAN": {"ns": "blue", "bridge": "br0", "vni": 7, "vxlan": "eth0", "spokes": ["web"]},
    "Network": {"subnets": [{"cidr": "192.0.2.0/24"}]},
    "Nic": {"network": "net", "owner": {"kind": "VirtualMachine", "name": "web"}},
}


def owned(**more: bool) -> Object:
    """An object with an owner."""
    owner = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="web", uid="u", **more)
    return Object(metadata=ObjectMeta(name="web-0", namespace="shop", owner_references=(owner,)))


def test_an_object_that_is_recreated() -> None:
    """An object of a controller is to be deleted there; another owner recreates nothing."""
    (note,) = controller_notes(owned(controller=True))
    assert "created by ReplicaSet web" in note
    assert controller_notes(owned()) == ()


def test_refusals_name_the_webhook() -> None:
    """A webhook's refusal is shown in its own words, and whose it is; other refusals are the server's."""
    found = refusal('admission webhook "validate.lanloom.io" denied the request: not now')
    assert (found.whose, found.why) == ("the admission webhook validate.lanloom.io", "not now")
    assert refusal("nads is forbidden").whose == "the API server"


async def accepted(_: Target) -> str:
    """A server that would accept the deletion."""
    return ""


@pytest.mark.parametrize("deleting", [False, True], ids=["living", "leaving"])
@pytest.mark.parametrize("asked", ASKED, ids=lambda each: each.kind)
async def test_kinds_that_are_gone_hold_nothing_up(asked: Resource[Any], deleting: bool) -> None:
    """Each kind is explained while any other is not installed, as in the middle of an uninstallation."""
    async with server() as engine:
        client = LocalClient(engine)
        key = Key("default" if asked.namespaced else "", "asked")
        meta = {"name": key.name, "finalizers": ["example.com/last"]}
        await client.create(asked, {"metadata": meta, "spec": SPECS.get(asked.kind, {})}, key.namespace)
        if deleting:
            await client.delete(asked, key.name, key.namespace)
        for gone in resources(FEATURES):
            if gone != asked:
                await client.delete(CRDS, gone.full_name)
                found = await explain(client, Target(asked, key), accepted)
                assert found.state == ("leaving" if deleting else "living"), gone
