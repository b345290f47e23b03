"""Say once of each trouble that one kind can't be followed, and that it is over: a broken watch mends in a moment."""

import asyncio
import math

import structlog

from lanloom.kube.errors import ApiError, KubeError

log = structlog.get_logger(__name__)

TROUBLE_SECONDS = 5.0
"""How long one kind must be in trouble, on a server that answers, until the log says so; once for each trouble."""


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
