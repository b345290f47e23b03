"""Story 12 of the design: VLANs on the management network, whose bridge belongs to the installer."""

import pytest

from tests.lab.driver import Lab, eventually
from tests.lab.looks import (
    NODES,
    all_have,
    all_lack,
    leased,
    looks,
)
from tests.lab.objects import vm_network

pytestmark = [pytest.mark.lab, pytest.mark.slow]


def test_story_12_mgmt(clean: Lab) -> None:
    """A network on mgmt puts VLAN 2014 next to the installer's on mgmt-br, with an address, and leaves no trace."""
    before = installers(clean)
    clean.kubectl("wait", "--for=condition=ready", "clusternetwork/mgmt", "--timeout=300s")
    clean.apply(vm_network("vlan2014", "mgmt", 2014))
    found = eventually(lambda: all_have(clean, "mgmt", 2014))
    assert leased(found, "192.168.14.")
    assert installers(clean) == before
    eventually(lambda: clean.reaches("node1", found["node2"].removesuffix("/24"), "mgmt-br.2014"))
    clean.kubectl("delete", "net-attach-def", "vlan2014")
    eventually(lambda: all_lack(clean, "mgmt", 2014))
    assert installers(clean) == before
    assert all(item.ids["mgmt-br"] == {1, 2021} for item in looks(clean, NODES).values())


def installers(lab: Lab) -> dict[str, list[object]]:
    """What the installer made on each node, apart from VLAN ids other than its own."""
    found: dict[str, list[object]] = {}
    for node, seen in looks(lab, NODES).items():
        links = [seen.links[name] for name in ("eth0", "mgmt-bo", "mgmt-br", "mgmt-br.2021")]
        known = [
            [link["ifindex"], link["flags"], link.get("master"), link["mtu"], link.get("ifalias")]
            for link in links
        ]
        ids = [seen.ids[name] & {1, 2021} for name in ("mgmt-br", "mgmt-bo")]
        routes = lab.on(node, "ip route show default; ip route show dev mgmt-br.2021")
        found[node] = [known, ids, seen.address("mgmt-br.2021"), routes]
    return found
