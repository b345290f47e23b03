"""Whether this node reaches the API server: every answer counts, and requests are frequent while a change pends."""

import asyncio
from collections.abc import Callable

import structlog
from msgspec.structs import replace

from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES
from lanloom.api.names import MGMT
from lanloom.features.vlan.agent.rollback.changes import Contact
from lanloom.features.vlan.rules.names import report_name
from lanloom.kube.errors import ApiError, KubeError
from lanloom.kube.ports import Client

log = structlog.get_logger(__name__)

PROBE_SECONDS = 2.0
"""Between two requests while a change is pending."""

ANSWER_SECONDS = 5.0
"""How long one request may take."""


class ApiProbe:
    """Probes the API server while enabled, and calls `wake` after each answer or silence. Times are the loop's."""

    def __init__(self, client: Client, node: str, wake: Callable[[], None]) -> None:
        self._client = client
        self._name = report_name(MGMT, node)
        self._wake = wake
        self._enabled = asyncio.Event()
        self.contact = Contact()

    def enable(self, on: bool) -> None:
        """Probe from now on, or stop."""
        if on:
            self._enabled.set()
        else:
            self._enabled.clear()

    def answered(self, began: float) -> None:
        """Note that the API server answered a request that began then."""
        if began > self.contact.answered:
            self.contact = replace(self.contact, answered=began)

    def notified(self) -> None:
        """Note that a watch brought something."""
        self.contact = replace(self.contact, notified=asyncio.get_running_loop().time())

    async def run(self) -> None:
        """Probe while enabled, until cancelled."""
        while True:
            await self._enabled.wait()
            await self._request()
            self._wake()
            await asyncio.sleep(PROBE_SECONDS)

    async def _request(self) -> None:
        """Accept any answer, also the usual one, that there is no such report."""
        began = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._client.get(CLUSTER_NETWORK_NODES, self._name)
        except ApiError:
            self.answered(began)
        except (KubeError, TimeoutError) as error:
            log.info("api-server-silent", error=str(error) or "no answer in time")
            self.contact = replace(self.contact, unanswered=began)
        else:
            self.answered(began)
