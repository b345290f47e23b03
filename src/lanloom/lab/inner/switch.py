"""The physical switch of the lab, and the DHCP servers on chosen VLANs of it.

The servers are in namespaces of their own behind a trunk port, as a router in a rack would be: a node reaches one
only through the switch and with the right VLAN id.
"""

from collections.abc import Sequence
from pathlib import Path

from lanloom.lab import protocol
from lanloom.lab.inner.capsule import Capsule, run
from lanloom.lab.inner.program import Program
from lanloom.lab.plan import DhcpNetwork

SCRATCH = Path("/run/dhcp")


class Switch:
    """The switch. `logs` is the directory for what its DHCP server prints."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._server: Program | None = None

    def report(self) -> tuple[protocol.Program, ...]:
        """How its programs are."""
        return (self._server.report(),) if self._server else ()

    async def build(self, networks: Sequence[DhcpNetwork]) -> None:
        """Makes the switch and starts the DHCP servers. Raises PartFailed."""
        bridge = "link add switch up type bridge vlan_filtering 1 mcast_snooping 0\n"
        await run("ip", "-batch", "-", text=bridge)
        if networks:
            await self._serve(networks)

    async def _serve(self, networks: Sequence[DhcpNetwork]) -> None:
        log = self._logs / "dhcp.log"
        capsule = await Capsule.start("dhcp.sh", {"LAB_LINKS": _prepare_links(networks)}, log)
        cable = (
            f"link add dhcp type veth peer name trunk address 02:4c:61:6e:ff:01 netns {capsule.pid}\n"
            "link set dhcp master switch up\n"
        )
        await run("ip", "-batch", "-", text=cable)
        ids = "".join(f"vlan add vid {network.vlan_id} dev dhcp\n" for network in networks)
        await run("bridge", "-batch", "-", text=ids)
        await capsule.proceed()
        self._server = Program("dhcp", capsule, _dnsmasq(networks), log)


def _prepare_links(networks: Sequence[DhcpNetwork]) -> str:
    """Writes what `ip -batch` is to do inside; returns the file's path."""
    lines = ["link set lo up", "link set trunk up"]
    for network in networks:
        link = f"trunk.{network.vlan_id}"
        lines += [
            f"link add link trunk name {link} type vlan id {network.vlan_id}",
            f"address add {network.server} dev {link}",
            f"link set {link} up",
        ]
    SCRATCH.mkdir()
    batch = SCRATCH / "links"
    batch.write_text("\n".join(lines) + "\n")
    return str(batch)


def _dnsmasq(networks: Sequence[DhcpNetwork]) -> tuple[str, ...]:
    # Without --no-ping every new lease waits three seconds for an echo that nobody answers.
    words = [
        "dnsmasq",
        "--keep-in-foreground",
        "--conf-file=/dev/null",
        "--port=0",
        "--user=root",
        "--no-ping",
    ]
    words += ["--bind-interfaces", "--dhcp-authoritative", "--log-facility=-", "--log-dhcp", "--pid-file="]
    words += [f"--dhcp-leasefile={SCRATCH}/leases", "--dhcp-option=option:router"]
    for network in networks:
        first, last = network.range
        words += [f"--interface=trunk.{network.vlan_id}", f"--dhcp-range={first},{last},{network.netmask},1h"]
    return tuple(words)
