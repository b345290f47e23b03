"""Asking the nodes' own kernels, so that the demo does not only believe what is reported."""

import asyncio
from collections.abc import Iterable

from lanloom.features.vlan.views.overview import Row
from lanloom_lab.client import capture
from lanloom_lab.errors import DemoFailed
from lanloom_lab.layout import Layout
from lanloom_lab.processes import until_done

SOON = 15.0
PAUSE = 0.3


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
        """The output of a shell command on a node soon does not hold `text`, which would be a sign of `what`.

        Soon and not at once: the agent reports what it has told NetworkManager, which takes a moment to do it.
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
            raise DemoFailed(f"{node} still has {what}:\n{output.strip()}", _look(node)) from None

    async def pod_reaches(self, node: str, namespace: str, address: str) -> None:
        """From the network namespace of a pod on a node, an address answers."""
        words = ("ip", "netns", "exec", namespace, "ping", "-c", "1", "-w", "5", address)
        status, output = await capture(self._layout, node, *words)
        if status != 0:
            raise DemoFailed(
                f"the pod {namespace} on {node} does not reach {address}:\n{output.strip()}", _look(node)
            )

    async def _has_address(self, row: Row) -> None:
        _, output = await capture(
            self._layout, row.node, "ip", "-4", "-oneline", "address", "show", row.interface
        )
        if f" {row.address} " not in output:
            said = output.strip() or "nothing"
            raise DemoFailed(
                f"{row.node} reports {row.address} on {row.interface}, but its kernel says: {said}",
                _look(row.node),
            )

    async def _reaches(self, source: Row, target: Row) -> None:
        address = target.address.partition("/")[0]
        status, output = await capture(
            self._layout, source.node, "ping", "-c", "1", "-w", "5", "-I", source.interface, address
        )
        if status != 0:
            raise DemoFailed(
                f"{source.node} does not reach {target.node} at {address} over {source.interface}:\n{output.strip()}",
                _look(source.node),
            )


def _look(node: str) -> str:
    return f"Run the demo with --keep and look with `lanloom lab exec {node} -- …` and `lanloom lab logs {node}`."
