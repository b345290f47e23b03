"""HTTPS POST as an API server sends it to an admission webhook: one bundle of CAs per call, connections reused."""

import ssl

import aiohttp

from lanloom.kube.errors import TransportError
from lanloom.kube.http import reason


class HttpsPoster:
    """Posts bodies to HTTPS servers that are trusted by a CA bundle of their own."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None
        self._contexts: dict[bytes, ssl.SSLContext] = {}

    async def close(self) -> None:
        """Close every connection."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def post(
        self, url: str, body: bytes, *, ca_bundle: bytes, server_name: str | None = None, timeout: float
    ) -> bytes:
        """Return the answer's body. `ca_bundle` is PEM, empty for the system's CAs; `timeout` in seconds.

        Raises TransportError when there is no answer, or one that is not 200.
        """
        try:
            async with self._opened().post(
                url,
                data=body,
                headers={"Content-Type": "application/json", "Accept": "application/json"},
                ssl=self._context(ca_bundle),
                server_hostname=server_name,
                timeout=aiohttp.ClientTimeout(total=timeout),
                allow_redirects=False,  # a webhook must not send the API server's requests anywhere else
            ) as response:
                answer = await response.read()
                if response.status != 200:
                    text = answer[:300].decode(errors="replace").strip()
                    raise TransportError(f"the server answered {response.status}: {text}")
                return answer
        except TimeoutError:
            raise TransportError(f"no answer within {timeout:g} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise TransportError(reason(error)) from None

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession()
        return self._session

    def _context(self, ca_bundle: bytes) -> ssl.SSLContext:
        context = self._contexts.get(ca_bundle)
        if context is None:
            if len(self._contexts) > 32:  # bundles of certificates that were renewed since
                self._contexts.clear()
            context = ssl.create_default_context(cadata=ca_bundle.decode("ascii") if ca_bundle else None)
            self._contexts[ca_bundle] = context
        return context
