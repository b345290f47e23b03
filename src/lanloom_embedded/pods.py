"""Ask pods over HTTP, at the addresses that their status gives."""

import aiohttp

from lanloom.kube.errors import TransportError
from lanloom_embedded.front.proxy import Answer
from lanloom_embedded.reasons import reason

SECONDS, MOST_BYTES = 10.0, 8 << 20
"""How long a pod may take to answer, and how much."""


async def fetch(url: str) -> Answer:
    """Get a URL. A redirection is an answer as any other. Raises TransportError."""
    timeout = aiohttp.ClientTimeout(total=SECONDS)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(url, allow_redirects=False) as answer,
        ):
            body = bytearray()
            async for part in answer.content.iter_any():
                body += part
                if len(body) > MOST_BYTES:
                    raise TransportError(f"the answer has more than {MOST_BYTES >> 20} MiB")
            return Answer(answer.status, answer.content_type, bytes(body))
    except TimeoutError:
        raise TransportError(f"no answer within {SECONDS:g} s") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise TransportError(reason(error)) from None
