"""What the mutating webhook fills in."""

from typing import Any

import pytest

from lanloom.api.ipam import FINALIZER, NETWORKS, NICS
from tests.features.ipam.admission.requests import SUBNET, Raw, defaults, network, new_uuid, nic, subnet
from tests.harness.admission import request


def patched(new: Raw, old: Raw | None = None) -> list[Raw]:
    """The subnets after the webhook."""
    subnets: list[Raw] = [dict(item) for item in new["spec"]["subnets"]]
    for operation in defaults(request(NETWORKS, new, old)).patch:
        _, _, index, field = operation["path"].strip("/").split("/")
        assert operation["op"] == ("add" if field not in subnets[int(index)] else "replace")
        subnets[int(index)][field] = operation["value"]
    return subnets


def test_a_subnet_gets_a_uuid() -> None:
    """A subnet without a UUID gets one; one that has it keeps it."""
    (first, second) = patched(network("net1", subnet(), {"cidr": "10.0.0.0/24"}))
    assert first["uuid"] == SUBNET["uuid"]
    assert second["uuid"] == new_uuid()


@pytest.mark.parametrize(
    ("new", "kept"),
    [
        (subnet(uuid=None), True),
        (subnet(uuid=None, gateway=None, pools=[]), True),
        (subnet(uuid=None, cidr="192.0.2.7/24"), True),
        (subnet(uuid=None, cidr="192.0.2.0/25", external=None), False),
        (subnet(uuid=None, cidr="192.0.2.0/25", external=None, name="a"), True),
    ],
    ids=["applied again", "changed", "not in normal form", "another CIDR", "another CIDR, the same name"],
)
def test_a_manifest_without_uuids_can_be_applied_again(new: Raw, kept: bool) -> None:
    """What is recognised as the same subnet keeps its UUID."""
    old = network("net1", subnet(name="a") if "name" in new else subnet())
    (after,) = patched(network("net1", new), old)
    assert (after["uuid"] == SUBNET["uuid"]) == kept


@pytest.mark.parametrize(
    ("cidr", "normal", "warned"),
    [
        ("192.0.2.0/22", "192.0.0.0/22", True),
        ("2001:DB8:0::/64", "2001:db8::/64", False),
        ("192.0.2.0/24", "192.0.2.0/24", False),
    ],
)
def test_a_cidr_gets_its_normal_form(cidr: str, normal: str, warned: bool) -> None:
    """A CIDR is stored in one form; who wrote host bits is told what they were taken for."""
    body = network("net1", {"cidr": cidr})
    assert patched(body)[0]["cidr"] == normal
    warnings = (f"spec.subnets[0].cidr: {cidr} has host bits; it is stored as {normal}",)
    assert defaults(request(NETWORKS, body)).warnings == (warnings if warned else ())


@pytest.mark.parametrize(
    ("external", "normal", "warned"),
    [
        (["192.0.2.9-192.0.2.12", "192.0.2.3-192.0.2.9"], ["192.0.2.3-192.0.2.12"], True),
        (["192.0.2.9", "192.0.2.9"], ["192.0.2.9"], True),
        (["192.0.2.9", "192.0.2.8"], ["192.0.2.9", "192.0.2.8"], False),
    ],
)
def test_reserved_ranges_do_not_overlap(external: list[str], normal: list[str], warned: bool) -> None:
    """What is reserved twice is stored once, and told; ranges that are apart stay as they were written."""
    body = network("net1", subnet(external=external))
    assert patched(body)[0]["external"] == normal
    warnings = ("spec.subnets[0].external: ranges overlap; each address was taken once",)
    assert defaults(request(NETWORKS, body)).warnings == (warnings if warned else ())


@pytest.mark.parametrize("finalizers", [None, [], ["example.org/other"], [FINALIZER]])
def test_a_nic_is_held_from_the_beginning(finalizers: list[str] | None) -> None:
    """A new NIC gets the finalizer beside those that it has."""
    body = nic(meta={"finalizers": finalizers} if finalizers is not None else None)
    if finalizers is None:
        del body["metadata"]["finalizers"]
    after = finalizers or []
    for operation in defaults(request(NICS, body)).patch:
        assert operation["path"] == "/metadata/finalizers"
        after = operation["value"]
    assert sorted(after) == sorted({*(finalizers or []), FINALIZER})


@pytest.mark.parametrize(
    "asked",
    [
        request(NETWORKS, network(), network(), status=True),
        request(NETWORKS, None, network()),
        request(NETWORKS, network("net1", subnet(cidr="nothing"))),
        request(NETWORKS, {"metadata": {"name": "net1"}, "spec": {"subnets": 5}}),
        request(NICS, nic(meta={"finalizers": []}), nic()),
    ],
    ids=["status", "deletion", "no CIDR", "no subnets", "a NIC that is let go"],
)
def test_nothing_else_is_changed(asked: Any) -> None:
    """Statuses, deletions and what can't be read pass as they are."""
    assert defaults(asked).patch == ()


def test_a_patch_is_as_small_as_can_be() -> None:
    """Of each subnet only what is missing or not in its form is changed."""
    patch = defaults(request(NETWORKS, network("net1", {"cidr": "192.0.2.1/24"}))).patch
    assert [operation["path"] for operation in patch] == ["/spec/subnets/0/uuid", "/spec/subnets/0/cidr"]
