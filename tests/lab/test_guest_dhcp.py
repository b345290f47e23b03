"""Addresses by DHCP for the guest of a macvtap spoke: systemd-networkd in a pod, whose interface is the device's.

Without a program at the device, frames for the guest go to the pod's own kernel. So a client there is in its place.
"""

import json
from collections.abc import Iterator

import pytest

from tests.lab.agents import without_agent
from tests.lab.driver import Lab, eventually
from tests.lab.stranger import end_program
from tests.lab.test_lan import lan, pod, status_of

pytestmark = [pytest.mark.lab, pytest.mark.slow]

SUBNET, SERVER = "10.9.7.0/24", "169.254.0.67"
FOREIGN = "10.99.0.50"

# A read-only /sys tells networkd that there is no udev to wait for.
CLIENT = """\
cat >/tmp/networkd.sh <<'END'
for path in run etc/systemd var/lib; do mount -t tmpfs t /$path; done
umount -l /sys
mount -t sysfs -o ro s /sys
mkdir -p /etc/systemd/network /run/systemd
printf '[Match]\\nName=net1\\n[Network]\\nDHCP=ipv4\\nLinkLocalAddressing=no\\n' \\
    >/etc/systemd/network/net1.network
printf '[DHCPv4]\\nClientIdentifier=mac\\n{options}' \\
    >>/etc/systemd/network/net1.network
exec /usr/lib/systemd/systemd-networkd
END
setsid ip netns exec default.a unshare --mount sh -eu /tmp/networkd.sh >/tmp/networkd.log 2>&1 </dev/null &
echo $! >/tmp/networkd.pid
"""
STOP = f"{end_program('/tmp/networkd.pid')}rm -f /tmp/networkd.*"
FLUSH = "ip -n default.a -4 address flush dev net1"

OTHER = f"""\
ip -n default.b address add 10.99.0.1/24 dev net1
ip netns exec default.b dnsmasq --conf-file=/dev/null --port=0 --user=root --no-ping --dhcp-authoritative \\
    --bind-interfaces --interface=net1 --pid-file=/tmp/other.pid --dhcp-leasefile=/tmp/other.leases \\
    --dhcp-range={FOREIGN},{FOREIGN},1h
"""


@pytest.fixture
def served(clean: Lab) -> Iterator[Lab]:
    """The lab with the LAN served, whose subnet has DHCP: a pod at its macvtap spoke a, and one on another node."""
    body = lan("served", 4751, "a", "b")
    body["spec"]["subnets"] = [{"cidr": SUBNET, "gateway": "10.9.7.1", "dhcp": True}]
    clean.apply(body)
    try:
        eventually(lambda: status_of(clean, "served").get("network"))
        clean.apply(pod("a", "node1", mode="mac"), pod("b", "node2"))
        clean.kubectl("wait", "--for=condition=Ready", "pod/a", "pod/b", "--timeout=300s")
        yield clean
    finally:
        clean.on("node1", STOP, status=None)
        clean.on("node2", f"{end_program('/tmp/other.pid')}rm -f /tmp/other.*", status=None)
        clean.kubectl("delete", "pods", "--all", "--namespace=default", "--timeout=300s")
        clean.kubectl("delete", "lans.lan.k8slan.io", "--all", "--namespace=default", "--timeout=300s")


def own(lab: Lab) -> str:
    """The address of the pod's NIC, once that of an earlier pod of this name is gone."""

    def address() -> str:
        nics = json.loads(lab.kubectl("get", "ipnic", "-o", "json"))["items"]
        [nic] = [item for item in nics if item["spec"]["owner"]["name"] == "a"]
        return str(nic["status"]["ips"][0])

    return str(eventually(address))


def addresses(lab: Lab) -> set[str]:
    """The addresses that the guest's kernel has."""
    links = json.loads(lab.on("node1", "ip -n default.a -4 -json address show dev net1") or "[]")
    return {item["local"] for link in links for item in link.get("addr_info", ())}


def ask(lab: Lab, options: str = "") -> set[str]:
    """Restart the guest's client, and return the addresses that it gets."""
    lab.on("node1", f"{STOP}\n{FLUSH}", status=None)
    assert addresses(lab) == set()
    lab.on("node1", CLIENT.replace("{options}", options))
    return set(eventually(lambda: addresses(lab), timeout=240))


def gateway(lab: Lab) -> str:
    """The gateway of the guest's default route, which its client makes after the address. Raises LookupError."""
    routes = json.loads(lab.on("node1", "ip -n default.a -json route") or "[]")
    return str({item["dst"]: item for item in routes}["default"]["gateway"])


def events(lab: Lab) -> list[str]:
    """The Events of the namespace, a line each."""
    return lab.kubectl("get", "events").splitlines()


def test_the_guest_of_a_device(served: Lab) -> None:
    """A guest behind a macvtap device has its NIC's address with route and MTU, also of an agent that was restarted."""
    address = own(served)
    assert ask(served) == {address}
    eventually(lambda: gateway(served) == "10.9.7.1")
    with without_agent(served, "node1"):
        pass
    assert ask(served) == {address}


def test_another_server(served: Lab) -> None:
    """A guest that takes another server's address makes an Event of its NIC, which names server and NIC's address."""
    address = own(served)
    assert ask(served) == {address}
    assert not [line for line in events(served) if "OtherDhcpServer" in line]
    served.on("node2", OTHER)
    assert ask(served, f"DenyList={SERVER}\\n") == {FOREIGN}
    told = eventually(lambda: [line for line in events(served) if "OtherDhcpServer" in line])
    assert all(f"server 10.99.0.1 than {address}" in line for line in told), told
