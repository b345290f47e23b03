"""What only one LAN of a cluster may have."""

from typing import Any

import pytest
from msgspec.structs import replace

from lanloom.api.lan import VlanUplink
from lanloom.features.lan.rules.claims import check_claims, claims_of, lost_claim
from lanloom.refusals import Denied
from tests.features.lan.samples import lan, other

CLAIMS: list[tuple[dict[str, Any], str]] = [
    ({"ns": "blue"}, 'spec.ns: "blue" is the network namespace of '),
    ({"vni": 7}, "spec.vni: 7 at port 4789 is the VNI of "),
    ({"spokes": ("x", "b")}, 'spec.spokes: "b" is the name of a spoke of '),
]


@pytest.mark.parametrize(
    ("namespace", "title"), [("default", "LAN default/blue"), ("elsewhere", "a LAN of another namespace")]
)
@pytest.mark.parametrize(("changes", "message"), CLAIMS)
def test_a_second_claim_is_refused(changes: dict[str, Any], message: str, namespace: str, title: str) -> None:
    """Namespace, VNI at a port, and spokes are one LAN's alone; only one of the same namespace is named."""
    new = other(namespace=namespace, **changes)
    with pytest.raises(Denied) as error:
        check_claims(new, [lan()])
    assert f"{message}{title} already" in str(error.value)
    assert not frozenset(claims_of(new)).isdisjoint(claims_of(lan()))


def test_what_others_may_have_as_well() -> None:
    """Bridge, VXLAN link and underlay are names within a LAN's own namespace; a VNI is free at another port."""
    check_claims(other(bridge="br0", vxlan="vx0", vni=7, vxlan_port=4790), [lan()])
    check_claims(lan(spokes=("c",)), [lan()])
    assert frozenset(claims_of(other(vni=7, vxlan_port=4790))).isdisjoint(claims_of(lan()))


def test_a_lan_that_goes_has_its_claims() -> None:
    """Until a LAN is gone its names are taken, and the refusal says to wait."""
    going = lan()
    going = replace(going, metadata=replace(going.metadata, deletion_timestamp="2026-11-01T11:00:00Z"))
    with pytest.raises(Denied, match="wait until that one is gone"):
        check_claims(other(ns="blue"), [going])


def test_the_older_one_has_it() -> None:
    """Of two LANs that claim the same, the younger one is not built; of one second, the uid decides."""
    old, young = lan(), other(ns="blue", created="2026-11-01T10:00:01Z")
    assert lost_claim(old, [old, young]) == ""
    assert "network namespace of LAN default/blue" in lost_claim(young, [old, young])
    twin = other(ns="blue", uid="uid-z")
    assert (lost_claim(old, [twin]), bool(lost_claim(twin, [old]))) == ("", True)


def test_an_invalid_one_claims_nothing() -> None:
    """A LAN that is built nowhere is in no conflict."""
    assert lost_claim(other(ns="blue", created="2026-12-01T10:00:00Z"), [lan(vni=0)]) == ""


VLAN = VlanUplink(cluster_network="cluster-1", vlan=2012)


@pytest.mark.parametrize(
    ("namespace", "admitted", "instead"),
    [
        ("default", (), "use spokes of LAN default/blue: add them to its spec.spokes"),
        ("lab", ("lab",), "use spokes of a LAN of another namespace, which admits namespace lab"),
        ("lab", (), "use spokes of that LAN, after its managers added lab to its spec.namespaces"),
    ],
)
def test_a_second_lan_on_a_vlan(namespace: str, admitted: tuple[str, ...], instead: str) -> None:
    """One LAN has a VLAN; the refusal of a second one says to use spokes of the first, and to choose no other name."""
    new = other(namespace=namespace, uplink=VLAN)
    with pytest.raises(Denied) as error:
        check_claims(new, [lan(uplink=VLAN, namespaces=admitted)])
    text = str(error.value)
    assert "VLAN 2012 of cluster network cluster-1 is the uplink of" in text and instead in text
    assert "unique" not in text and "choose another" not in text
