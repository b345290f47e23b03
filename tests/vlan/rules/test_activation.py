"""What NetworkManager is asked for, by what it says of a profile."""

import pytest

from lanloom.node.ports import Connection
from lanloom.vlan.rules.activation import actions
from lanloom.vlan.rules.desired import Interface

UUID = "2c41a89b-f183-5aa8-9d7b-2212089be4fa"


def interface(mode: str, address: str = "") -> Interface:
    """A VLAN interface that a node should have."""
    return Interface(
        vid=2012,
        name="clust-4afb.2012",
        network="default/vlan2012",
        mode=mode,
        address=address,
        uuid=UUID,
        file="cluster-1-vlan2012.nmconnection",
        content=b"",
    )


DHCP, STATIC = interface("dhcp"), interface("static", "192.168.1.10/24")


def connection(phase: str, *addresses: str, applied: bool = True, device: str = DHCP.name) -> Connection:
    """What NetworkManager says of the profile."""
    return Connection(uuid=UUID, phase=phase, addresses=addresses, applied=applied, device=device)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wanted", "said", "verb"),
    [
        (DHCP, connection("absent"), "load"),
        (DHCP, connection("inactive"), "activate"),
        (DHCP, connection("failed"), "activate"),
        (DHCP, connection("activating"), None),
        (DHCP, connection("activating", applied=False), "reapply"),
        (DHCP, connection("active", "10.115.8.2/21"), None),
        (DHCP, connection("active"), "restore"),
        (STATIC, connection("active", "192.168.1.10/24"), None),
        (STATIC, connection("active", "10.0.0.1/8", "192.168.1.10/24"), None),
        (STATIC, connection("active", "10.115.8.2/21"), "restore"),
        (STATIC, connection("active", "10.115.8.2/21", applied=False), "reapply"),
        (STATIC, connection("active", "10.115.8.2/21", applied=False, device="other"), "activate"),
    ],
)
def test_what_is_asked_for(wanted: Interface, said: Connection, verb: str | None) -> None:
    """Each state of a profile has its remedy, and one that is in force or on its way is let alone."""
    assert [item.verb for item in actions((wanted,), {UUID: said})] == ([verb] if verb else [])


def test_what_is_not_known_is_loaded() -> None:
    """A profile of which NetworkManager says nothing at all is loaded."""
    assert [item.verb for item in actions((DHCP,), {})] == ["load"]
