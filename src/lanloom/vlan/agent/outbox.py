"""Tells the API server what a node carries and what befell it, beside the work on the host and never in its way.

While the API server is away the last report waits, and so do some Events.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from random import Random

from lanloom.api.harvester import VlStatus
from lanloom.kube.controller import Controller
from lanloom.kube.events import Recorder
from lanloom.vlan.agent.announcements import Announcement, Networks, announcements
from lanloom.vlan.agent.reporter import Reporter

KEPT = 100
"""So many Events wait while the API server is away; the oldest are dropped first."""

EVENT_RETRY = 5.0
"""Seconds until an Event that was not written is tried again."""

_REPORTS = "reports"


class Outbox:
    """One node's reports and Events. `heard` is called when the server answered, with the time of the question."""

    def __init__(
        self,
        node: str,
        reporter: Reporter,
        recorder: Recorder,
        networks: Networks,
        *,
        heard: Callable[[float], None],
        rng: Random,
    ) -> None:
        self._node = node
        self._reporter = reporter
        self._recorder = recorder
        self._networks = networks
        self._heard = heard
        self._statuses: Mapping[str, VlStatus] | None = None
        self._events: deque[Announcement] = deque(maxlen=KEPT)
        self.controller: Controller[str] = Controller("vlan-reports", self._tell, rng=rng)

    def report(self, statuses: Mapping[str, VlStatus]) -> None:
        """These are now all of the node's reports, by cluster network."""
        self._statuses = statuses
        self.controller.enqueue(_REPORTS)

    def announce(self, events: Iterable[Announcement]) -> None:
        """Events to be written when the server can be reached."""
        self._events.extend(events)
        if self._events:
            self.controller.enqueue(_REPORTS)

    async def _tell(self, _key: str) -> float | None:
        if self._statuses is not None:
            began = asyncio.get_running_loop().time()
            if await self._reporter.publish(self._statuses, self._compare):
                self._heard(began)
        while self._events:
            event = self._events[0]
            if not await self._recorder.event(event.about, event.type, event.reason, event.message):
                return EVENT_RETRY
            if self._events and self._events[0] is event:  # a full queue dropped it meanwhile
                self._events.popleft()
        return None

    def _compare(self, before: VlStatus | None, after: VlStatus) -> None:
        self._events.extend(announcements(self._node, before, after, self._networks))
