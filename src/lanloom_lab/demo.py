"""`lanloom lab demo`: VLAN networks on a lab, with each step verified, and the base of its parts about pods.

The verifier compares the reports of the cluster with the kernels of the nodes. The demo uses only what every user has:
the API, and programs run on nodes. A part about pods is a `Story`.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any

from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES
from lanloom.api.core import PODS
from lanloom.api.harvester import CLUSTER_NETWORKS
from lanloom.api.meta import Key
from lanloom.cli.cluster import connect
from lanloom.cli.query import Query
from lanloom.features.vlan.views.overview import Overview, Row, overview
from lanloom.kube.conditions import is_true
from lanloom.kube.errors import KubeError
from lanloom.kube.lookup import get_or_none
from lanloom.kube.ports import Client
from lanloom_lab import examples
from lanloom_lab.client import Running, capture, run_in_guest, running
from lanloom_lab.errors import DemoFailed, LabError
from lanloom_lab.layout import Layout
from lanloom_lab.processes import until_done

NODES = frozenset({"node1", "node2", "node3"})
PAIR = frozenset({"node1", "node2"})
NETWORKS = frozenset({"cluster-1", "cluster-2"})
STATIC_ADDRESSES = {"node1": "192.168.1.10/24", "node2": "192.168.1.11/24", "node3": "192.168.1.12/24"}

UPLINKS = ("cluster-1.yaml", "cluster-2.yaml")
DHCP, STATIC, SECOND = "vlan2012-dhcp.yaml", "changes/vlan2012-static.yaml", "vlan2013-static.yaml"

STEP_TIMEOUT = 60.0
SOON = 15.0
PAUSE = 0.2

Rows = tuple[Row, ...]
Progress = Callable[[str], None]
Show = Callable[[str, Rows], None]
Ask = Callable[[str], None]
Present = Callable[[str, Query[Any], Sequence[Any]], None]


class Verifier:
    """The nodes of a lab as verifiers. Every method raises DemoFailed when it is not as it should be."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    async def confirm(self, rows: Iterable[Row]) -> None:
        """Every row's address is on its interface."""
        await asyncio.gather(*(self._has_address(row) for row in rows if row.interface))

    async def ping(self, rows: Iterable[Row]) -> None:
        """Within each cluster network, the first node reaches all others over the VLAN."""
        networks: dict[str, list[Row]] = {}
        for row in rows:
            if row.interface:
                networks.setdefault(row.cluster_network, []).append(row)
        pairs = [(first, other) for first, *others in networks.values() for other in others]
        await asyncio.gather(*(self._reaches(first, other) for first, other in pairs))

    async def lacks(self, node: str, what: str, command: str, text: str) -> None:
        """Wait until the output of a shell command on a node lacks `text`, which would be a sign of `what`.

        Soon and not at once: the agent reports what it requested of NetworkManager, which takes a moment to do it.
        """
        output = ""

        async def gone() -> bool:
            nonlocal output
            _, output = await capture(self._layout, node, "sh", "-c", command)
            return text not in output

        try:
            async with asyncio.timeout(SOON):
                await until_done(gone, PAUSE)
        except TimeoutError:
            raise DemoFailed(f"{node} still has {what}:\n{output.strip()}", _remedy(node)) from None

    async def run(self, node: str, *words: str) -> None:
        """Run a program on a node, which must succeed."""
        status, output = await capture(self._layout, node, *words)
        if status != 0:
            raise DemoFailed(f"`{' '.join(words)}` failed on {node}:\n{output.strip()}", _remedy(node))

    async def boots(self, machine: Key) -> bool:
        """Return whether the guest of a machine runs commands."""
        with suppress(LabError):
            status, _ = await run_in_guest(self._layout, machine.namespace, machine.name, "true")
            return status == 0
        return False

    async def guest(self, machine: Key, command: str) -> str:
        """Run a command in the guest of a machine, which must succeed, and return what it prints."""
        status, output = await run_in_guest(self._layout, machine.namespace, machine.name, command)
        if status != 0:
            raise DemoFailed(
                f"`{command}` failed in the guest of {machine}:\n{output.strip()}",
                f"Run the demo with --keep and look with `lanloom lab guest {machine.name} -- …`.",
            )
        return output

    def running(self, node: str, *command: str) -> AbstractAsyncContextManager[Running]:
        """Keep a program on a node."""
        return running(self._layout, node, *command)

    async def pod_reaches(self, node: str, namespace: str, address: str) -> None:
        """From the network namespace of a pod on a node, an address answers."""
        words = ("ip", "netns", "exec", namespace, "ping", "-c", "1", "-w", "5", address)
        status, output = await capture(self._layout, node, *words)
        if status != 0:
            raise DemoFailed(
                f"the pod {namespace} on {node} does not reach {address}:\n{output.strip()}", _remedy(node)
            )

    async def _has_address(self, row: Row) -> None:
        _, output = await capture(
            self._layout, row.node, "ip", "-4", "-oneline", "address", "show", row.interface
        )
        if f" {row.address} " not in output:
            said = output.strip() or "nothing"
            raise DemoFailed(
                f"{row.node} reports {row.address} on {row.interface}, but its kernel says: {said}",
                _remedy(row.node),
            )

    async def _reaches(self, source: Row, target: Row) -> None:
        address = target.address.partition("/")[0]
        status, output = await capture(
            self._layout, source.node, "ping", "-c", "1", "-w", "5", "-I", source.interface, address
        )
        if status != 0:
            raise DemoFailed(
                f"{source.node} does not reach {target.node} at {address} over {source.interface}:\n{output.strip()}",
                _remedy(source.node),
            )


def _remedy(node: str) -> str:
    return f"Run the demo with --keep and look with `lanloom lab exec {node} -- …` and `lanloom lab logs {node}`."


async def run_demo(layout: Layout, progress: Progress, show: Show) -> None:
    """Tell the story on a running lab with three nodes; `show` gets a title and rows. Raises DemoFailed."""
    try:
        async with connect(str(layout.kubeconfig)) as client:
            await Demo(client, Verifier(layout), progress, show).run()
    except KubeError as error:
        raise DemoFailed(
            f"the API server refused or is silent: {error}", "See `lanloom lab status`."
        ) from error


class Demo:
    """The story: networks come, carry traffic, change, and go."""

    def __init__(self, client: Client, verifier: Verifier, progress: Progress, show: Show) -> None:
        self._client = client
        self._verifier = verifier
        self._progress = progress
        self._show = show

    async def run(self) -> None:
        """All of it, in order. Raises DemoFailed, and KubeError when the server refuses something."""
        await self._make_cluster_networks()
        await self._make_vlans()
        await self._change_to_static()
        await self._delete_vlans()
        await self._delete_cluster_networks()

    async def _make_cluster_networks(self) -> None:
        self._progress("creating the networks cluster-1 (three nodes) and cluster-2 (two nodes)")
        await examples.apply(self._client, *UPLINKS)
        await self._until(
            "a bridge of each cluster network on its nodes",
            lambda rows: on_nodes(rows, "cluster-1") == NODES and on_nodes(rows, "cluster-2") == PAIR,
        )

    async def _make_vlans(self) -> None:
        self._progress("creating VLAN 2012 on cluster-1 (DHCP) and VLAN 2013 on cluster-2 (static)")
        await examples.apply(self._client, DHCP, SECOND)
        rows = await self._until(
            "an address of both VLANs on every node of theirs",
            lambda rows: (
                assigned(rows, "cluster-1", "DHCP").keys() == NODES
                and assigned(rows, "cluster-2", "static").keys() == PAIR
            ),
        )
        await self._verify("VLAN 2012 by DHCP, VLAN 2013 static", rows)

    async def _change_to_static(self) -> None:
        self._progress("changing VLAN 2012 from DHCP to static addresses")
        await examples.apply(self._client, STATIC)
        rows = await self._until(
            "the static addresses of VLAN 2012 on every node",
            lambda rows: assigned(rows, "cluster-1", "static") == STATIC_ADDRESSES,
        )
        await self._verify("VLAN 2012 changed to static", rows)

    async def _verify(self, title: str, rows: Rows) -> None:
        self._show(title, rows)
        self._progress("asking the nodes' kernels for these addresses, and pinging between nodes")
        await self._verifier.confirm(rows)
        await self._verifier.ping(rows)

    async def _delete_vlans(self) -> None:
        self._progress("deleting both VLAN networks")
        links = [row for row in (await self._read()).rows if row.interface]
        await examples.delete(self._client, STATIC, SECOND)
        await self._until(
            "the end of every VLAN interface",
            lambda rows: not any(row.interface for row in rows),
            links_only=True,
        )
        for row in links:
            await self._verifier.lacks(row.node, "a VLAN interface", "ip -brief link", f"{row.interface}@")
        for node in sorted(NODES):
            await self._verifier.lacks(
                node, "a profile", "ls /etc/NetworkManager/system-connections", ".nmconnection"
            )
            await self._verifier.lacks(node, "a VLAN id", "bridge vlan show", "201")

    async def _delete_cluster_networks(self) -> None:
        self._progress("deleting the cluster networks")
        await examples.delete(self._client, *UPLINKS)
        await self._until("the end of every bridge", lambda rows: not rows)
        for node in sorted(NODES):
            await self._verifier.lacks(node, "a bridge or bond", "ip -brief link", "cluster-")
        self._progress("all is gone: no VLAN interface, no profile, no bridge on any node")

    async def _read(self) -> Overview:
        networks = await self._client.list(CLUSTER_NETWORKS)
        statuses = await self._client.list(CLUSTER_NETWORK_NODES)
        return overview(
            (item for item in networks.items if item.metadata.name in NETWORKS),
            (item for item in statuses.items if item.status.cluster_network in NETWORKS),
        )

    async def _until(self, what: str, condition: Callable[[Rows], bool], *, links_only: bool = False) -> Rows:
        """Return the rows as soon as they are as they should be; on the way everything must be Ready too."""
        view = await self._read()
        with suppress(TimeoutError):
            async with asyncio.timeout(STEP_TIMEOUT):
                while not (condition(view.rows) and (links_only or not view.problems)):
                    await asyncio.sleep(PAUSE)
                    view = await self._read()
                return view.rows
        complaints = "\n".join(f"  {item.what}: {item.reason}: {item.message}" for item in view.problems)
        raise DemoFailed(
            f"after {STEP_TIMEOUT:.0f} s there is not {what}\n{complaints}".rstrip(),
            "Run the demo with --keep, then see `lanloom status` and `lanloom lab logs NODE`.",
        )


def on_nodes(rows: Iterable[Row], network: str) -> frozenset[str]:
    """Return the nodes that carry a cluster network."""
    return frozenset(row.node for row in rows if row.cluster_network == network and row.bridge)


def assigned(rows: Iterable[Row], network: str, how: str) -> dict[str, str]:
    """Node → address, of the Ready interfaces of a cluster network whose address was assigned in this way."""
    return {
        row.node: row.address
        for row in rows
        if row.cluster_network == network and row.assigned == how and row.state == "Ready" and row.address
    }


class Story(ABC):
    """A part of the demo on a running lab.

    `ask` gets commands as users type them, `present` a table: title, fields, rows. `show` is the command for details.
    """

    show = ""

    def __init__(
        self, client: Client, verifier: Verifier, progress: Progress, ask: Ask, present: Present
    ) -> None:
        self.client = client
        self.verifier = verifier
        self.progress = progress
        self.ask = ask
        self.present = present

    @abstractmethod
    async def run(self) -> None:
        """Tell the story. Raises DemoFailed, and KubeError when the server refuses something."""

    async def state(self) -> str:
        """Return the state of what the story is about, for an error."""
        return ""

    async def until(self, what: str, condition: Callable[[], Awaitable[bool]]) -> None:
        """Wait until something is there. Raises DemoFailed."""
        try:
            async with asyncio.timeout(STEP_TIMEOUT):
                await until_done(condition, PAUSE)
        except TimeoutError:
            state = await self.state()
            raise DemoFailed(
                f"after {STEP_TIMEOUT:.0f} s there is not {what}" + (f"\n  {state}" if state else ""),
                f"Run the demo with --keep, then see `lanloom {self.show}`.",
            ) from None

    async def started(self, key: Key) -> str:
        """Return the node of a pod once the pod is ready."""

        async def is_ready() -> bool:
            found = await get_or_none(self.client, PODS, key)
            return found is not None and is_true(found.status.conditions, "Ready")

        await self.until(f"the pod {key}", is_ready)
        return (await self.client.get(PODS, key.name, key.namespace)).spec.node_name


async def run_story(
    story: type[Story], layout: Layout, progress: Progress, ask: Ask, present: Present
) -> None:
    """Tell a story on a running lab. Raises DemoFailed."""
    try:
        async with connect(str(layout.kubeconfig)) as client:
            await story(client, Verifier(layout), progress, ask, present).run()
    except KubeError as error:
        raise DemoFailed(
            f"the API server refused or is silent: {error}", "See `lanloom lab status`."
        ) from error


def like(body: dict[str, Any], key: Key, node: str) -> dict[str, Any]:
    """Return a pod once more, under another name on a certain node."""
    metadata = body["metadata"] | {"name": key.name}
    return body | {"metadata": metadata, "spec": body["spec"] | {"nodeName": node}}
