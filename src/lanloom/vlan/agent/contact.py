"""Whether this node reaches the API server: every answer counts, and while a change is on trial it is asked often."""

import asyncio
from collections.abc import Callable

import structlog
from msgspec.structs import replace

from lanloom.api.harvester import VLAN_STATUSES
from lanloom.api.names import MGMT
from lanloom.kube.errors import ApiError, KubeError
from lanloom.kube.ports import Client
from lanloom.vlan.rules.names import vlan_status_name
from lanloom.vlan.rules.trial import Contact

log = structlog.get_logger(__name__)

PROBE_SECONDS = 2.0
"""Between two questions while a change is on trial."""

ANSWER_SECONDS = 5.0
"""How long one question may take."""


class Reach:
    """Asks the API server while `ask` is on, and calls `wake` after each answer or silence. Times are the loop's."""

    def __init__(self, client: Client, node: str, wake: Callable[[], None]) -> None:
        self._client = client
        self._name = vlan_status_name(MGMT, node)
        self._wake = wake
        self._asking = asyncio.Event()
        self.contact = Contact()

    def ask(self, on: bool) -> None:
        """Whether it matters now."""
        if on:
            self._asking.set()
        else:
            self._asking.clear()

    def heard(self, began: float) -> None:
        """The API server answered a request that began then."""
        if began > self.contact.heard:
            self.contact = replace(self.contact, heard=began)

    def told(self) -> None:
        """A watch brought something."""
        self.contact = replace(self.contact, told=asyncio.get_running_loop().time())

    async def run(self) -> None:
        """Asks when it matters, until cancelled."""
        while True:
            await self._asking.wait()
            await self._question()
            self._wake()
            await asyncio.sleep(PROBE_SECONDS)

    async def _question(self) -> None:
        """Any answer will do: also one that there is no such report, which is the usual one."""
        began = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._client.get(VLAN_STATUSES, self._name)
        except ApiError:
            self.heard(began)
        except (KubeError, TimeoutError) as error:
            log.info("api-server-silent", error=str(error) or "no answer in time")
            self.contact = replace(self.contact, missed=began)
        else:
            self.heard(began)
