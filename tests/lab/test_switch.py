"""The switch of the lab, its DHCP servers, and NetworkManager on a node that uses them, without Lanloom."""

from collections.abc import Iterator

import pytest

from tests.lab.driver import Lab, eventually

pytestmark = [pytest.mark.lab, pytest.mark.slow]

PROFILE = """\
[connection]
id=probe
uuid=5a1b6f0e-1c1e-4d8e-9f44-0d4d3b0a2012
type=vlan
interface-name=probe-br.2012
[vlan]
id=2012
parent=probe-br
[ipv4]
method={method}
never-default=true
[ipv6]
method=disabled
"""

BRIDGE = """
ip link add probe-br type bridge vlan_filtering 1
ip link set eth1 master probe-br up
ip link set probe-br up
bridge vlan add vid 2012 dev probe-br self
bridge vlan add vid 2012 dev eth1
"""

FILE = "/etc/NetworkManager/system-connections/probe.nmconnection"


def address(lab: Lab, node: str) -> str:
    """The address of the VLAN link, or nothing."""
    return lab.on(node, "ip -oneline -4 address show probe-br.2012 2>/dev/null | awk '{print $4}'").strip()


@pytest.fixture
def bridged(lab: Lab) -> Iterator[Lab]:
    """Two nodes with a bridge on the switch."""
    try:
        for node in ("node1", "node2"):
            lab.on(node, BRIDGE)
        yield lab
    finally:
        for node in ("node1", "node2"):
            lab.on(
                node, f"rm -f {FILE}; nmcli connection reload; ip link delete probe-br; ip link set eth1 down"
            )


def write(lab: Lab, node: str, method: str) -> None:
    """Gives a node the profile."""
    script = f"umask 077; cat > {FILE}; nmcli connection reload"
    lab.run("exec", node, "--", "sh", "-c", script, given=PROFILE.format(method=method))


def test_a_vlan_gets_a_lease(bridged: Lab) -> None:
    """NetworkManager gives a VLAN link an address of that VLAN's DHCP server, and nodes reach each other."""
    for node in ("node1", "node2"):
        write(bridged, node, "auto")
    first = eventually(lambda: address(bridged, "node1"))
    second = eventually(lambda: address(bridged, "node2"))
    assert first != second
    assert first.startswith("192.168.1.1")
    eventually(lambda: bridged.reaches("node1", second.removesuffix("/24"), "probe-br.2012"))


def test_a_lease_survives_a_reboot(bridged: Lab) -> None:
    """A node has the same lease after a reboot, as its NICs keep their hardware addresses."""
    write(bridged, "node1", "auto")
    before = eventually(lambda: address(bridged, "node1"))
    bridged.run("node", "reboot", "node1")
    bridged.on("node1", BRIDGE)
    assert eventually(lambda: address(bridged, "node1")) == before
