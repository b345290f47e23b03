"""What goes over the socket between the plugin (`lanloom.cni.plugin` describes it) and the agent."""

from typing import Any, Literal

import msgspec
from msgspec import Struct

from lanloom.runtime.cnicall import NOT_DECODED, CniError, network_name

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
