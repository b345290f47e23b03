"""The physical switches of the lab, and the DHCP servers on selected VLANs of them.

The servers are in namespaces of their own behind a trunk port of each switch, like a router in a rack: a node reaches
one only through the switch and with the correct VLAN id.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from lanloom_lab import protocol
from lanloom_lab.inner.sandbox import NamespaceSandbox, Program, run
from lanloom_lab.plan import MANAGEMENT_DHCP, MANAGEMENT_VLAN, DhcpNetwork

SCRATCH = Path("/run/dhcp")

_ASIDE = 4093
"""A VLAN of the management switch where no node is."""


class Trunk(Struct, frozen=True):
    """A link from the DHCP servers, where it is `name`, to a port of a switch."""

    name: str
    switch: str
    mac: str
    networks: tuple[DhcpNetwork, ...]

    @property
    def port(self) -> str:
        """Return the port of the switch."""
        return f"dhcp-{self.switch}"

    def link(self, network: DhcpNetwork) -> str:
        """Return the link of the servers on a VLAN of this trunk."""
        return f"{self.name}.{network.vlan_id}"


class Switch:
    """The switches. `logs` is the directory for the output of their DHCP servers."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._server: Program | None = None

    def report(self) -> tuple[protocol.Program, ...]:
        """Return the state of its programs."""
        return (self._server.report(),) if self._server else ()

    async def build(self, networks: Sequence[DhcpNetwork]) -> None:
        """Create the nodes' switch next to the management switch, and start the DHCP servers. Raises ProcessFailed."""
        bridge = "link add switch up type bridge vlan_filtering 1 mcast_snooping 0\n"
        await run("ip", "-batch", "-", text=bridge)
        await self._serve(
            (
                Trunk("trunk", "switch", "02:4c:61:6e:ff:01", tuple(networks)),
                Trunk("mgmt", "mgmt", "02:4c:61:6e:ff:02", (MANAGEMENT_DHCP,)),
            )
        )

    async def cut(self, cut: bool) -> None:
        """Disconnect the nodes from the supervisor and the API server, or reconnect them. Raises ProcessFailed.

        Supervisor and inner daemon move to a VLAN of their own. They stay connected, also when nodes boot.
        """
        old, new = (MANAGEMENT_VLAN, _ASIDE) if cut else (_ASIDE, MANAGEMENT_VLAN)
        moves = [
            f"vlan add vid {new} dev {end} pvid untagged\nvlan del vid {old} dev {end}\n"
            for end in _supervisors_ends()
        ]
        await run("bridge", "-batch", "-", text="".join(moves))

    async def _serve(self, trunks: Sequence[Trunk]) -> None:
        log = self._logs / "dhcp.log"
        sandbox = await NamespaceSandbox.start("dhcp.sh", {"LAB_LINKS": _prepare_links(trunks)}, log)
        for trunk in trunks:
            await _plug_in(trunk, sandbox)
        await sandbox.proceed()
        self._server = Program("dhcp", sandbox, _dnsmasq(trunks), log)


def _supervisors_ends() -> tuple[str, ...]:
    """Return the ports of supervisor and inner daemon on the management switch; one on the host's kernel."""
    return ("mgmt self", "vec0") if Path("/sys/class/net/vec0").exists() else ("mgmt self",)


async def _plug_in(trunk: Trunk, sandbox: NamespaceSandbox) -> None:
    cable = (
        f"link add {trunk.port} type veth peer name {trunk.name} address {trunk.mac} netns {sandbox.pid}\n"
        f"link set {trunk.port} master {trunk.switch} up\n"
    )
    await run("ip", "-batch", "-", text=cable)
    ids = "".join(f"vlan add vid {network.vlan_id} dev {trunk.port}\n" for network in trunk.networks)
    await run("bridge", "-batch", "-", text=ids)


def _prepare_links(trunks: Iterable[Trunk]) -> str:
    """Write the commands for `ip -batch` in the sandbox; return the path of the file."""
    lines = ["link set lo up"]
    for trunk in trunks:
        lines.append(f"link set {trunk.name} up")
        for network in trunk.networks:
            link = trunk.link(network)
            lines += [
                f"link add link {trunk.name} name {link} type vlan id {network.vlan_id}",
                f"address add {network.server} dev {link}",
                f"link set {link} up",
            ]
    SCRATCH.mkdir()
    batch = SCRATCH / "links"
    batch.write_text("\n".join(lines) + "\n")
    return str(batch)


def _dnsmasq(trunks: Iterable[Trunk]) -> tuple[str, ...]:
    # Without --no-ping every new lease waits three seconds for an echo that is never answered.
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
    for trunk in trunks:
        for network in trunk.networks:
            first, last = network.range
            words += [
                f"--interface={trunk.link(network)}",
                f"--dhcp-range={first},{last},{network.netmask},1h",
            ]
    return tuple(words)
