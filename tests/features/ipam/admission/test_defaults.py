"""What the mutating webhook fills in."""

from typing import Any

import pytest

from lanloom.api.ipam import FINALIZER, NETWORKS, NICS
from tests.features.ipam.admission.requests import SUBNET, Raw, defaults, network, nic, subnet, with_status
from tests.harness.admission import request

FOREIGN = "6f1f2a1e-0000-4000-8000-00000000ffff"


def patched(new: Raw, old: Raw | None = None) -> list[Raw]:
    """The subnets after the webhook."""
    subnets: list[Raw] = [dict(item) for item in new["spec"]["subnets"]]
    for operation in defaults(request(NETWORKS, new, old)).patch:
        if operation["path"].startswith("/metadata/"):
            continue
        _, _, index, field = operation["path"].strip("/").split("/")
        assert operation["op"] == ("add" if field not in subnets[int(index)] else "replace")
        subnets[int(index)][field] = operation["value"]
    return subnets


@pytest.mark.parametrize(
    "written",
    [
        subnet(uuid=None),
        subnet(uuid=FOREIGN),
        subnet(uuid=None, cidr="192.0.2.7/24"),
        {"cidr": "2001:DB8:0::/64"},
        subnet(uuid=None, external=["192.0.2.9-192.0.2.12", "192.0.2.3-192.0.2.9"]),
    ],
)
@pytest.mark.parametrize("again", [False, True], ids=["new", "applied again"])
def test_a_spec_stays_as_it_was_written(written: Raw, again: bool) -> None:
    """Nothing is generated or rewritten in a spec: a tool that compares it with a file finds no difference."""
    body = network("net1", written)
    assert patched(body, body if again else None) == [written]


@pytest.mark.parametrize("others", [[], ["example.org/hold"]], ids=["none", "another's"])
def test_a_new_network_is_held(others: list[str]) -> None:
    """A network has the finalizer from its creation on; after a user took it away it stays away."""
    body = network("net1", subnet())
    body["metadata"]["finalizers"] = others
    (patch,) = defaults(request(NETWORKS, body)).patch
    assert patch == {"op": "add", "path": "/metadata/finalizers", "value": [*others, FINALIZER]}
    assert defaults(request(NETWORKS, body, body)).patch == ()
    body["metadata"]["finalizers"] = [*others, FINALIZER]
    assert defaults(request(NETWORKS, body)).patch == ()


@pytest.mark.parametrize("saved", [False, True], ids=["not in the status", "in the status"])
@pytest.mark.parametrize(
    ("new", "found"),
    [
        (subnet(uuid=None), True),
        (subnet(uuid=None, gateway=None, pools=[]), True),
        (subnet(uuid=None, cidr="192.0.2.7/24"), True),
        (subnet(uuid=None, cidr="192.0.2.0/25", external=None), False),
        (subnet(uuid=None, cidr="192.0.2.0/25", external=None, name="a"), True),
    ],
    ids=["applied again", "changed", "not in normal form", "another CIDR", "another CIDR, the same name"],
)
def test_a_uuid_of_version_0_1_is_not_lost(new: Raw, found: bool, saved: bool) -> None:
    """A UUID that 0.1 wrote into a spec stays there until the status has it, whatever applies the manifest again."""
    before = network("net1", subnet(name="a") if "name" in new else subnet())
    told = {"cidr": "192.0.2.0/24", "uuid": SUBNET["uuid"]}
    old = with_status(before, subnets=[told]) if saved else before
    (after,) = patched(network("net1", new), old)
    assert (after.get("uuid") == SUBNET["uuid"]) == (found and not saved)


@pytest.mark.parametrize(
    ("cidr", "normal", "warned"),
    [
        ("192.0.2.0/22", "192.0.0.0/22", True),
        ("2001:DB8:0::/64", "2001:db8::/64", False),
        ("192.0.2.0/24", "192.0.2.0/24", False),
    ],
)
def test_host_bits_are_told(cidr: str, normal: str, warned: bool) -> None:
    """A warning says what a CIDR with host bits is taken for."""
    body = network("net1", {"cidr": cidr})
    warnings = (f"spec.subnets[0].cidr: {cidr} has host bits; it means {normal}",)
    assert defaults(request(NETWORKS, body)).warnings == (warnings if warned else ())


@pytest.mark.parametrize(
    ("external", "warned"),
    [
        (["192.0.2.9-192.0.2.12", "192.0.2.3-192.0.2.9"], True),
        (["192.0.2.9", "192.0.2.9"], True),
        (["192.0.2.9", "192.0.2.8"], False),
    ],
)
def test_reserved_ranges_that_overlap_are_told(external: list[str], warned: bool) -> None:
    """What is reserved twice counts once, and is reported."""
    warnings = ("spec.subnets[0].external: ranges overlap; each address counts once",)
    body = network("net1", subnet(external=external))
    assert defaults(request(NETWORKS, body)).warnings == (warnings if warned else ())


@pytest.mark.parametrize("finalizers", [None, [], ["example.org/other"], [FINALIZER]])
def test_a_nic_is_held_from_the_beginning(finalizers: list[str] | None) -> None:
    """A new NIC gets the finalizer in addition to those that it has."""
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
