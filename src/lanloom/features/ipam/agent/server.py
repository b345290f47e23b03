"""The agent's side of the plugin's socket: requests and answers, as `lanloom.cni.plugin` describes them."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal

import msgspec
import structlog
from msgspec import Struct

from lanloom.runtime.callsocket import NOT_DECODED, TRY_AGAIN, CallSocket, CniError, network_name

LARGEST = (1 << 20) + (1 << 14)
"""Bytes of a request: the configuration, of which the plugin takes 1 MiB, and what goes with it."""

_LONGEST = 2000
"""Characters of a message."""

Raw = dict[str, Any]
Command = Literal["ADD", "DEL", "CHECK", "STATUS", "GC"]


class Request(Struct, frozen=True, kw_only=True):
    """A CNI call. `container` and `interface` are empty for STATUS and GC; nothing of `config` is checked yet."""

    version: Literal[1]
    command: Command
    config: Raw
    container: str = ""
    interface: str = ""
    netns: str = ""
    args: str = ""

    @property
    def network_name(self) -> str:
        """The name of the CNI network. Raises CniError."""
        return network_name(self.config)


_REQUEST = msgspec.json.Decoder(Request)


def decode(text: bytes) -> Request:
    """Raises CniError."""
    try:
        return _REQUEST.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise CniError(NOT_DECODED, "the agent can't read the plugin's request", str(error)) from None


def encode_result(result: Raw) -> bytes:
    """The answer to a call that went well."""
    return msgspec.json.encode({"result": result})


def encode_error(error: CniError) -> bytes:
    """The answer to a call that failed."""
    body = {"code": error.code, "msg": error.msg[:_LONGEST], "details": error.details[:_LONGEST]}
    return msgspec.json.encode({"error": body})


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
