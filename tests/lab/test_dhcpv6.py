"""IPv6 addresses of a LAN's subnet for those who ask for them: systemd-networkd in a pod, and the kernel of a machine.

The lab's guests have no client of DHCPv6, so a machine shows what its kernel makes of the router advertisements.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lab.driver import Lab, eventually
from tests.lab.machines import Machine, remove_machines
from tests.lab.stranger import end_program
from tests.lab.test_in_place import nad
from tests.lab.test_lan import lan, pod, status_of

pytestmark = [pytest.mark.lab, pytest.mark.slow]

Raw = dict[str, Any]

PREFIX = "fd07::/64"
DAY = 86_400

# A read-only /sys tells networkd that there is no udev to wait for. A node without an id has no other DUID.
NETWORKD = """\
cat >/tmp/networkd.sh <<'END'
for path in run etc/systemd var/lib; do mount -t tmpfs t /$path; done
umount -l /sys
mount -t sysfs -o ro s /sys
mkdir -p /etc/systemd/network /run/systemd
printf '[Match]\\nName=net1\\n[Network]\\nDHCP=ipv6\\n' >/etc/systemd/network/net1.network
printf '[DHCPv6]\\nDUIDType=link-layer\\n' >/etc/systemd/networkd.conf
exec /usr/lib/systemd/systemd-networkd
END
setsid ip netns exec default.a unshare --mount sh -eu /tmp/networkd.sh >/tmp/networkd.log 2>&1 </dev/null &
echo $! >/tmp/networkd.pid
"""


@pytest.fixture
def six(clean: Lab) -> Iterator[Lab]:
    """The lab with the LAN six, which has an IPv6 subnet with DHCP, and a pod at its spoke a."""
    body = lan("six", 4741, "a", "vm")
    body["spec"]["subnets"] = [{"cidr": PREFIX, "gateway": "fd07::1", "dhcp": True}]
    clean.apply(body)
    try:
        eventually(lambda: status_of(clean, "six").get("network"))
        clean.apply(pod("a", "node1"))
        clean.kubectl("wait", "--for=condition=Ready", "pod/a", "--timeout=300s")
        yield clean
    finally:
        clean.on("node1", f"{end_program('/tmp/networkd.pid')}rm -f /tmp/networkd.*", status=None)
        remove_machines(clean)
        clean.kubectl("delete", "net-attach-def", "six-vm", "--ignore-not-found")
        clean.kubectl("delete", "pods", "--all", "--namespace=default", "--timeout=300s")
        clean.kubectl("delete", "lans.lan.k8slan.io", "--all", "--namespace=default", "--timeout=300s")


def addresses(lab: Lab) -> dict[str, int]:
    """The seconds for which the pod's addresses are valid, by address."""
    text = lab.on("node1", "ip -n default.a -6 -json address show dev net1 scope global")
    items = [item for link in json.loads(text or "[]") for item in link.get("addr_info", ())]
    return {item["local"]: item["valid_life_time"] for item in items if "local" in item}


def routes(lab: Lab) -> dict[str, Raw]:
    """The pod's IPv6 routes, by destination."""
    items = json.loads(lab.on("node1", "ip -n default.a -6 -json route") or "[]")
    return {item["dst"]: item for item in items}


def test_those_who_ask_get_their_addresses(six: Lab) -> None:
    """A pod's client gets exactly the address of its NIC, and a machine the prefix and no address that it makes up."""
    [(own, seconds)] = addresses(six).items()
    assert seconds > DAY
    six.on("node1", f"ip -n default.a address del {own}/64 dev net1")
    assert addresses(six) == {}
    six.on("node1", NETWORKD)
    eventually(lambda: addresses(six), timeout=240)
    [(got, seconds)] = addresses(six).items()
    assert (got, seconds <= DAY) == (own, True)
    # The client sets the route of the router advertisement independently of the address.
    eventually(lambda: PREFIX in routes(six))
    found = routes(six)
    assert "gateway" not in found[PREFIX]
    assert "default" not in found

    ipam = {"type": "lanloom-ipam", "network": status_of(six, "six")["network"]}
    six.apply(nad("six-vm", type="k8slanveth", veth="vm", binding="bridge", ipam=ipam))
    machine = Machine(six, "vm1")
    machine.create("six-vm")
    eventually(lambda: "fd07::/64 dev eth0" in machine.run("ip -6 route"), timeout=240)
    assert "fd07:" not in machine.run("ip -6 address")
    assert "default" not in machine.run("ip -6 route")
