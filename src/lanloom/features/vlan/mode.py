"""Whether Harvester's network controller runs in the cluster: then it makes the uplinks, and Lanloom does not.

Both would otherwise write the same fields and change the same links. The sign is the controller's service account:
it comes and goes with the controller's installation, and without it the controller can't write anything. Manager
and agents watch it themselves, so no process follows a mode that another one found. A reinstallation takes the account
away for a moment; so its absence counts only after a while.
"""

import asyncio
from collections.abc import Callable
from typing import Literal

import structlog

from lanloom.api.core import SERVICE_ACCOUNTS, ServiceAccount
from lanloom.api.names import HARVESTER_ACCOUNT, HARVESTER_NAMESPACE
from lanloom.kube.informer import Informer
from lanloom.kube.informers import Informers

log = structlog.get_logger(__name__)

Mode = Literal["alone", "beside"]
"""Whether Lanloom makes bonds, bridges and VLAN ids itself, or Harvester's controller does."""


GRACE_SECONDS = 60.0
"""Seconds for which an account that was there may be away. The links are Harvester's all the while: nothing is lost."""


def harvester_informer(informers: Informers) -> Informer[ServiceAccount]:
    """Follow the service account of Harvester's network controller."""
    return informers.get(
        SERVICE_ACCOUNTS,
        namespace=HARVESTER_NAMESPACE,
        fields=f"metadata.name={HARVESTER_ACCOUNT}",
        title="harvester",
    )


class HarvesterDetector:
    """The presence of Harvester's controller. The caller runs `informer`, and trusts `mode` once that is synced."""

    def __init__(self, informer: Informer[ServiceAccount]) -> None:
        self.informer = informer
        self._handlers: list[Callable[[], None]] = []
        self._logged: Mode | None = None
        self._gone_at: float | None = None
        informer.on_change(self._account_changed)

    @property
    def mode(self) -> Mode:
        """The mode as of now."""
        return "beside" if len(self.informer.store) or self._is_away_for_now() else "alone"

    def coexists(self) -> bool:
        """Return whether Harvester's controller runs."""
        return self.mode == "beside"

    def on_change(self, handler: Callable[[], None]) -> None:
        """Add a handler that is called when the mode may have changed."""
        self._handlers.append(handler)

    def log_mode(self) -> None:
        """Log the mode, if it is another one than was logged last."""
        if self._logged == self.mode:
            return
        self._logged = self.mode
        account = f"the service account {HARVESTER_NAMESPACE}/{HARVESTER_ACCOUNT}"
        because = f"{account} is there" if self.coexists() else f"there is no {account.removeprefix('the ')}"
        if self._is_away_for_now():
            because = f"{account} was there a moment ago"
        log.info("mode", mode=self.mode, because=because)

    def _is_away_for_now(self) -> bool:
        now = asyncio.get_running_loop().time() if self._gone_at is not None else 0.0
        return self._gone_at is not None and now < self._gone_at + GRACE_SECONDS

    def _account_changed(self, old: ServiceAccount | None, new: ServiceAccount | None) -> None:
        self._gone_at = None
        if old is not None and new is None:
            loop = asyncio.get_running_loop()
            self._gone_at = loop.time()
            loop.call_at(self._gone_at + GRACE_SECONDS, self._changed)
        self._changed()

    def _changed(self) -> None:
        if self.informer.is_synced:
            self.log_mode()
        for handler in self._handlers:
            handler()
