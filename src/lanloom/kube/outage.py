"""One line in the log when an API server goes away, or one kind can't be followed, and one when that is over.

The client of a process that stays has one `Outage`, however many requests fail meanwhile. An error that it accounts for
is marked `reported`: informers, elections and controllers have nothing to add to it, and log it for debugging only.

An informer has its `WatchErrors`: it says once of each trouble of its kind, as a broken watch mends in a moment.
"""

import asyncio
import math

import structlog

from lanloom.kube.errors import ApiError, KubeError, Unreachable

log = structlog.get_logger(__name__)

REFUSAL_SECONDS = 3.0
"""How long nothing must have been answered before a refusal counts as the whole server's.

The other kinds of a server that refuses one kind are answered meanwhile.
"""

_REFUSALS = (401, 502, 503, 504)
"""Codes that a server, or a load balancer before it, gives to every request. Others are about one request."""

TROUBLE_SECONDS = 5.0
"""How long one kind must be in trouble, on a server that answers, until the log says so; once for each trouble."""


class Outage:
    """Whether one API server answers, judged by the requests of one client. `server` is its address."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._answered = 0.0
        self._since: float | None = None

    @property
    def lasts(self) -> bool:
        """Whether the server is away, and the log says so."""
        return self._since is not None

    def answered(self) -> None:
        """Note that a request was answered."""
        self._answered = now = asyncio.get_running_loop().time()
        if self._since is not None:
            log.info("api-server-back", server=self._server, seconds=round(now - self._since, 1))
            self._since = None

    def failed(self, error: KubeError, began: float) -> None:
        """Note that a request which was sent at `began` failed; mark the error if the whole server is away.

        A failure tells nothing about the server if another request was answered after this one was sent.
        """
        if self._since is None and self._is_away(error, began):
            self._since = asyncio.get_running_loop().time()
            log.warning("api-server-away", server=self._server, error=str(error))
        error.reported = self.lasts

    def refused(self, error: ApiError, began: float) -> None:
        """Note a refusal, which is an answer unless it is one that every request gets."""
        if error.code in _REFUSALS:
            self.failed(error, began)
        else:
            self.answered()

    def _is_away(self, error: KubeError, began: float) -> bool:
        if isinstance(error, Unreachable):
            return began >= self._answered
        return asyncio.get_running_loop().time() - self._answered >= REFUSAL_SECONDS


class WatchErrors:
    """What keeps one kind from being followed; `resource` is its full name."""

    def __init__(self, resource: str) -> None:
        self._resource = resource
        self._since = math.inf
        self._logged = ""

    def end(self) -> None:
        """Forget since when it has been in trouble: what fails next has nothing to do with what was before."""
        self._since = math.inf

    def note(self, error: KubeError) -> None:
        """Log an error that has lasted, and was neither logged before nor reported by the client."""
        if error.reported:
            self.end()
        elif self._is_new(error):
            log.warning("can't follow the resource; retrying", resource=self._resource, error=str(error))
            return
        log.debug("can't follow the resource", resource=self._resource, error=str(error))

    def note_recovery(self) -> None:
        """Log that a trouble is over, where the log says that there was one."""
        self.end()
        if self._logged:
            log.info("following the resource again", resource=self._resource)
            self._logged = ""

    def _is_new(self, error: KubeError) -> bool:
        now = asyncio.get_running_loop().time()
        self._since = min(self._since, now)
        trouble = f"{error.code} {error.reason}" if isinstance(error, ApiError) else type(error).__name__
        if now - self._since < TROUBLE_SECONDS or trouble == self._logged:
            return False
        self._logged = trouble
        return True
