"""How a test of the contract gets its node and its event loop: `@on_node` runs it on whatever the bed has."""

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from tests.fakes import FakeHost, FakeSwitch
from tests.harness import virtual
from tests.node.contract.node import DHCP_VLAN, FakeNode, Node

Scenario = Callable[[Node], Awaitable[None]]


class Bed(Protocol):
    """Gives each scenario a node with nothing on it, and an event loop."""

    def run(self, scenario: Scenario) -> None:
        """Runs a scenario to its end."""


class FakeBed:
    """Nodes in memory, in virtual time."""

    def run(self, scenario: Scenario) -> None:
        """Runs a scenario to its end."""

        async def main() -> None:
            switch = FakeSwitch({DHCP_VLAN: "192.168.12.0/24"})
            switch.plant_address(DHCP_VLAN, "fd00:12::1")
            now = asyncio.get_running_loop().time
            await scenario(FakeNode(FakeHost("node", ("eth1", "eth2"), switch=switch, now=now), switch))

        virtual.run(main())


def on_node(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Makes an asynchronous test with a parameter `node` one of the fixture `bed`; other parameters stay."""

    @functools.wraps(test)
    def run(bed: Bed, **others: Any) -> None:
        bed.run(lambda node: test(node, **others))

    own = inspect.signature(test).parameters.values()
    parameters = [
        parameter.replace(name="bed") if parameter.name == "node" else parameter for parameter in own
    ]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    del run.__wrapped__
    return run
