"""What the agent answers on the plugin's socket: `lanloom.cni.plugin` describes the requests and the answers."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import structlog

from lanloom.features.ipam.agent.protocol import LARGEST, Raw, Request, decode, encode_error, encode_result
from lanloom.runtime.callsocket import CallSocket
from lanloom.runtime.cnicall import NOT_DECODED, TRY_AGAIN, CniError

Observer = Callable[[str, int], None]
"""Called after each call with the command, empty where it could not be read, and the code of its error, 0 for none."""

log = structlog.get_logger(__name__)


class CniServer:
    """Listen on `path`, and hand each request to `answer`.

    `observe` is called after each call; the options are those of CallSocket.
    """

    def __init__(
        self,
        path: Path,
        answer: Callable[[Request], Awaitable[Raw]],
        *,
        observe: Observer = lambda _command, _code: None,
        **options: Any,
    ) -> None:
        self._answer = answer
        self._observe = observe
        self._socket = CallSocket(path, self._reply, self._refuse, largest=LARGEST, **options)

    async def run(self) -> None:
        """Serve until cancelled. Raises OSError when it can't listen."""
        await self._socket.run()

    async def _reply(self, text: bytes) -> bytes:
        command = ""
        try:
            request = decode(text)
            command = request.command
            answer = encode_result(await self._answer(request))
        except CniError as error:
            return self._failed(command, error)
        except MemoryError:
            raise
        except Exception:
            log.exception("cni-call-broke", command=command)
            failure = CniError(TRY_AGAIN, "Lanloom's agent failed; see its log, and try again later")
            self._observe(command, failure.code)
            return encode_error(failure)
        self._observe(command, 0)
        return answer

    def _refuse(self, why: str) -> bytes:
        return self._failed("", CniError(NOT_DECODED, why))

    def _failed(self, command: str, error: CniError) -> bytes:
        log.warning(
            "cni-call-failed", command=command, code=error.code, error=error.msg, details=error.details
        )
        self._observe(command, error.code)
        return encode_error(error)
