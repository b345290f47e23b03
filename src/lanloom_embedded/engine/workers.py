"""The loop of the server's own controllers: take a key, attend to it, try again later if that failed."""

from collections.abc import Awaitable, Callable, Hashable
from typing import TypeVar

import structlog

from lanloom.kube.queue import WorkQueue
from lanloom.runtime.https.errors import StatusError

log = structlog.get_logger(__name__)

K = TypeVar("K", bound=Hashable)


async def work(queue: WorkQueue[K], attend: Callable[[K], Awaitable[None]]) -> None:
    """Attend to keys until it is cancelled."""
    while True:
        key = await queue.get()
        try:
            await attend(key)
            queue.forget(key)
        except StatusError as error:
            # Somebody's webhook refuses, or an object changed under our hands: both may pass.
            log.info("tried in vain", key=str(key), error=error.message)
            queue.add_rate_limited(key)
        finally:
            queue.done(key)
