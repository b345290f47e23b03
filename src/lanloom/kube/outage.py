"""One line in the log when an API server goes away, and one when it is back, however many requests fail meanwhile.

The client of a process that stays has one `Outage`. An error that it accounts for is marked `reported`: informers,
elections and controllers have nothing to add to it, and log it for debugging only.
"""

import asyncio

import structlog

from lanloom.kube.errors import ApiError, KubeError, Unreachable

log = structlog.get_logger(__name__)

REFUSAL_SECONDS = 3.0
"""How long nothing must have been answered before a refusal counts as the whole server's.

The other kinds of a server that refuses one kind are answered meanwhile.
"""

_REFUSALS = (401, 502, 503, 504)
"""Codes that a server, or a load balancer before it, gives to every request. Others are about one request."""


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
