"""CNI's own `bridge` plugin makes the bridge before its keeper does, as after a node's reboot."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest

from lanloom.features.dummy.rules.objects import bridge_addresses, nad_config
from tests.features.dummy.kernel.test_bridge_process import (
    PATIENCE,
    SOON,
    Daemons,
    daemons,
    ip,
    there,
    until,
)
from tests.features.dummy.rules.made import isolated
from tests.harness.namespaces import namespace

__all__ = ["daemons"]

PLUGINS = "/usr/lib/cni"
"""Where Debian has the reference plugins."""

GATEWAY = "10.7.0.1/24"
ROUTED_NETWORK = isolated(subnet="10.7.0.0/24", gateway="node")
ROUTED = {"isGateway": True, "ipam": {"type": "static", "addresses": [{"address": "10.7.0.9/24"}]}}


def call(command: str, pod: str, **more: Any) -> None:
    """Has the plugin attach a pod's network namespace to the bridge, or take it off."""
    config = {"cniVersion": "0.3.1", "name": "n", "type": "bridge", "bridge": "dummy-br", **more}
    told = {
        "COMMAND": command,
        "CONTAINERID": pod,
        "NETNS": f"/run/netns/{pod}",
        "IFNAME": "net1",
        "PATH": PLUGINS,
    }
    environment = os.environ | {f"CNI_{key}": value for key, value in told.items()}
    words = ["ip", "netns", "exec", "host", f"{PLUGINS}/bridge"]
    text = json.dumps(config).encode()
    done = subprocess.run(words, input=text, env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout


def ping(pod: str, address: str) -> bool:
    """Whether one of a few echoes from a pod is answered."""
    words = ["ip", "netns", "exec", pod, "ping", "-c", "1", "-w", "2", *address.split()]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


def ports() -> int:
    """How many pods are on the bridge."""
    return len(ip("-o link show master dummy-br").splitlines())


def hardware_address() -> str:
    """The bridge's."""
    return ip("link show dev dummy-br").split("link/ether ")[1].split()[0]


@pytest.fixture
def pods() -> Iterator[tuple[str, ...]]:
    """Network namespaces of pods, with nothing but lo."""
    names = ("pod1", "pod2")
    with ExitStack() as stack:
        for name in names:
            stack.enter_context(namespace(name))
        yield names


def test_taken_over(daemons: Daemons, pods: tuple[str, ...]) -> None:
    """The plugin's bridge gets the mark and keeps its pod, the host's IPv6 address goes, and more pods can join."""
    call("ADD", pods[0])
    until(lambda: "fe80::" in ip("address show dev dummy-br"))
    assert not there()
    process = daemons.start()
    until(daemons.ready().exists)
    assert there() and ports() == 1
    call("ADD", pods[1])
    assert ports() == 2
    assert "inet6" not in ip("address show dev dummy-br")
    assert "addrgenmode none" in ip("-d link show dev dummy-br")
    process.send_signal(signal.SIGTERM)
    process.wait()
    daemons.start("absent", ready="gone")
    for pod in pods:
        assert there() and not daemons.ready("gone").exists()
        call("DEL", pod)
    until(daemons.ready("gone").exists)
    assert not ip("link show dev dummy-br")


@pytest.mark.parametrize("state", ["present", "absent"])
def test_pods_have_ended(daemons: Daemons, pods: tuple[str, ...], state: str) -> None:
    """A bridge of the plugin's that is not in use any more is taken over as well, or goes."""
    call("ADD", pods[0])
    call("DEL", pods[0])
    assert ip("link show dev dummy-br") and not there()
    daemons.start(state)
    until(daemons.ready().exists)
    assert there() if state == "present" else not ip("link show dev dummy-br")


@pytest.mark.parametrize("first", [False, True])
def test_addresses_of_both_ip_versions(daemons: Daemons, pods: tuple[str, ...], *, first: bool) -> None:
    """Pods on a bridge reach each other by IPv4 and IPv6, and the host has an address of neither on it."""
    if first:
        daemons.start()
        until(daemons.ready().exists)
    places = (("10.7.0.8/24", "fd00:7::8/64"), ("10.7.0.9/24", "fd00:7::9/64"))
    for pod, place in zip(pods, places, strict=True):
        call("ADD", pod, ipam={"type": "static", "addresses": [{"address": text} for text in place]})
    if not first:
        daemons.start()
        until(daemons.ready().exists)
    for address in ("10.7.0.9", "fd00:7::9"):
        until(partial(ping, pods[0], address))
    assert there() and ports() == 2
    assert "inet" not in ip("address show dev dummy-br")


def test_a_gateway_comes_late(daemons: Daemons, pods: tuple[str, ...]) -> None:
    """A bridge that was taken over without a port and an address can still become a gateway."""
    call("ADD", pods[0])
    call("DEL", pods[0])
    daemons.start(gateway=GATEWAY)
    until(daemons.ready().exists)
    call("ADD", pods[1], **ROUTED)
    assert f"inet {GATEWAY}" in ip("address show dev dummy-br") and there()


@pytest.mark.parametrize("state", ["present", "absent"])
def test_gateway(daemons: Daemons, pods: tuple[str, ...], state: str) -> None:
    """The gateway that the plugin gave the bridge is no obstacle, and stays as long as the bridge does."""
    call("ADD", pods[0], **ROUTED)
    assert f"inet {GATEWAY}" in ip("address show dev dummy-br")
    known = hardware_address()
    daemons.start(state, gateway=GATEWAY)
    until(there)
    assert f"inet {GATEWAY}" in ip("address show dev dummy-br") and ports() == 1
    assert hardware_address() == known
    call("DEL", pods[0], **ROUTED)
    until(daemons.ready().exists)
    assert there() if state == "present" else not ip("link show dev dummy-br")


def test_gateway_that_is_not_the_networks(daemons: Daemons, pods: tuple[str, ...]) -> None:
    """A bridge with an address that the network does not know stays as it is, and the process says why it fails."""
    call("ADD", pods[0], **ROUTED)
    (daemons.directory / "why").touch()
    assert daemons.start(gateway="10.7.0.1/16").wait(PATIENCE) == 1
    assert "Lanloom did not create the link" in (daemons.directory / "why").read_text()
    assert not there() and "fe80::" in ip("address show dev dummy-br") and ports() == 1


def test_the_gateway_of_another_subnet(daemons: Daemons, pods: tuple[str, ...]) -> None:
    """A bridge with another subnet has the gateway of that one alone, by its keeper or by its first pod."""
    forced = {key: value for key, value in nad_config(ROUTED_NETWORK).items() if key == "forceAddress"}
    call("ADD", pods[0], **ROUTED, **forced)
    former = daemons.start(gateway=GATEWAY)
    until(daemons.ready().exists)
    call("DEL", pods[0], **ROUTED, **forced)
    former.kill()
    former.wait()
    daemons.ready().unlink(missing_ok=True)
    daemons.start(gateway="10.8.0.1/24")
    until(daemons.ready().exists)
    other = {"ipam": {"type": "static", "addresses": [{"address": "10.8.0.9/24"}]}}
    call("ADD", pods[1], **ROUTED | forced | other)
    shown = ip("address show dev dummy-br")
    assert "inet 10.8.0.1/24" in shown and GATEWAY not in shown and there()


BOTH = isolated(subnet="10.7.0.0/24,fd00:7::/64", gateway="node")
ADDRESSES = {"type": "static", "addresses": [{"address": "10.7.0.9/24"}, {"address": "fd00:7::9/64"}]}
SWITCHES = ("net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding")
GATEWAYS = {"10.9.0.2": "10.7.0.1", "fd00:9::2": "fd00:7::1"}
"""Addresses of a host beyond the node, by the gateway to them."""


def on_host(words: str) -> subprocess.CompletedProcess[str]:
    """What a command on the node comes to."""
    command = ["ip", "netns", "exec", "host", *words.split()]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def beyond(pods: tuple[str, ...]) -> bool:
    """Makes the second pod a host beyond the node, and tells the first one where; whether the kernel can translate.

    Where it can't, that host knows the way back, which it needs then.
    """
    ip(f"link add out up type veth peer name out netns {pods[1]}")
    translates = all(
        on_host(f"{program} -t nat -N trial").returncode == 0 for program in ("iptables", "ip6tables")
    )
    back = [] if translates else ["route add 10.7.0.0/24 via 10.9.0.1", "route add fd00:7::/64 via fd00:9::1"]
    for words in ("10.9.0.1/24", "fd00:9::1/64 nodad"):
        ip(f"address add dev out {words}")
    lines = [
        "link set out up",
        "address add dev out 10.9.0.2/24",
        "address add dev out fd00:9::2/64 nodad",
        *back,
    ]
    for words in lines:
        subprocess.run(["ip", "-n", pods[1], *words.split()], check=True)
    return translates


@pytest.mark.parametrize("first", [False, True])
def test_gateways_of_both_ip_versions(daemons: Daemons, pods: tuple[str, ...], *, first: bool) -> None:
    """Whichever of both came first, a pod reaches hosts beyond its node by IPv4 and IPv6, also after a repair.

    The process is ready when the node forwards both, which neither it nor the plugin turns on.
    """
    translates = beyond(pods)
    given = nad_config(BOTH) | {"ipam": ADDRESSES, "bridge": "dummy-br", "ipMasq": translates}
    start = partial(daemons.start, gateway=bridge_addresses(BOTH))
    if first:
        start()
        until(there)
    call("ADD", pods[0], **given)
    process = start()
    until(there)
    for address, gateway in GATEWAYS.items():
        until(partial(ping, pods[0], gateway))
        subprocess.run(["ip", "-n", pods[0], "route", "add", address, "via", gateway], check=True)
    for address, switch in zip(GATEWAYS, SWITCHES, strict=True):
        assert on_host(f"sysctl --values {switch}").stdout.strip() == "0"
        assert not ping(pods[0], address) and not daemons.ready().exists()
        assert on_host(f"sysctl -w {switch}=1").returncode == 0

    def is_ready() -> bool:
        """Starts another one where the process has given up meanwhile, as its kubelet does."""
        nonlocal process
        if process.poll() is not None:
            process = start()
        return daemons.ready().exists()

    until(is_ready)
    for address in GATEWAYS:
        until(partial(ping, pods[0], address))
    ip("link set dummy-br down")
    until(there)
    for address in GATEWAYS:
        until(partial(ping, pods[0], address))


def echoes(pod: str) -> int:
    """How many requests for an echo have come to a pod by IPv6."""
    words = ["ip", "netns", "exec", pod, "cat", "/proc/net/snmp6"]
    shown = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    (line,) = [line for line in shown.splitlines() if line.startswith("Icmp6InEchos ")]
    return int(line.split()[1])


def rules() -> list[str]:
    """The node's routing rules of IPv6 that are not the kernel's."""
    return [line for line in ip("-6 rule").splitlines() if "iif" in line]


@pytest.mark.parametrize("gateway", ["", "fd00:7::1/64"])
def test_what_guests_send(daemons: Daemons, pods: tuple[str, ...], gateway: str) -> None:
    """On a node that forwards IPv6, packets of guests leave the bridge from the subnet of its gateway alone."""
    beyond(pods)
    assert on_host(f"sysctl -w {SWITCHES[1]}=1").returncode == 0
    process = daemons.start(gateway=gateway)
    until(daemons.ready().exists)
    call("ADD", pods[0], ipam={"type": "static", "addresses": [{"address": "fd00:7::9/64"}]})
    lines = [
        f"neigh add fd00:7::1 lladdr {hardware_address()} dev net1",
        "address add fd00:77::5/128 dev net1 nodad",
        "route add fd00:9::2 via fd00:7::1",
    ]
    for words in lines:
        subprocess.run(["ip", "-n", pods[0], "-6", *words.split()], check=True)

    def send(source: str) -> int:
        before = echoes(pods[1])
        ping(pods[0], f"-I {source} fd00:9::2")
        return echoes(pods[1]) - before

    assert send("fd00:77::5") == 0
    if gateway:
        until(lambda: send("fd00:7::9"))
    else:
        assert send("fd00:7::9") == 0
    ip("-6 rule del pref 1001")
    until(lambda: len(rules()) == (2 if gateway else 1))
    assert send("fd00:77::5") == 0
    process.kill()
    process.wait()
    ip("-6 rule del pref 1001")
    until(lambda: send("fd00:77::5"))  # the rule is the fence
    call("DEL", pods[0])
    daemons.start("absent", ready="gone")
    until(daemons.ready("gone").exists)
    assert not rules()


def test_a_node_without_forwarding(daemons: Daemons) -> None:
    """On a node that does not forward IPv6, the process of a gateway of IPv6 makes the bridge and says why it ends."""
    (daemons.directory / "why").touch()
    assert daemons.start(gateway="fd00:7::1/64").wait(PATIENCE) == 1
    assert "this node does not forward IPv6" in (daemons.directory / "why").read_text()
    assert there()


def test_routers_are_ignored(daemons: Daemons, pods: tuple[str, ...]) -> None:
    """Before a pod joins a bridge that was made by its keeper, the plugin lets the node ignore IPv6's routers there."""
    daemons.start()
    until(daemons.ready().exists)
    call("ADD", pods[0])
    words = ["ip", "netns", "exec", "host", "sysctl", "--values", "net.ipv6.conf.dummy-br.accept_ra"]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip() == "0"


def test_at_the_same_moment(daemons: Daemons, pods: tuple[str, ...]) -> None:
    """Whichever process makes the bridge first, the pod is on it and it gets its mark."""
    daemons.start()
    until(daemons.ready().exists)
    for _ in range(10):
        ip("link delete dummy-br")
        call("ADD", pods[0])
        until(there, SOON)
        until(daemons.ready().exists)
        until(lambda: ports() == 1, SOON)
        call("DEL", pods[0])
