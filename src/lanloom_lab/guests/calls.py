"""How the lab talks with a guest's launcher on a node: JSON lines, a numbered call and a reply of the same number.

Replies may come in another order. A launcher says by itself only that its guest has ended.
"""

import msgspec
from msgspec import Struct, structs

from lanloom_lab.guests.domain import Domain, Nic


class Call(Struct, frozen=True, kw_only=True, tag_field="call", tag=lambda name: name.lower()):
    """Base of what a launcher is asked for."""

    number: int = 0


class Start(Call, frozen=True, kw_only=True):
    """Start the domain, in the pod's network. With `incoming`, for a guest that comes from another node."""

    domain: Domain
    incoming: bool = False


class Receive(Call, frozen=True, kw_only=True):
    """Listen for the guest at a socket that all nodes see."""

    path: str


class Send(Call, frozen=True, kw_only=True):
    """Begin to send the guest to the launcher that listens at the socket. Replied when the transfer is under way.

    `bandwidth` is its limit in bytes per second; None for no limit.
    """

    path: str
    bandwidth: int | None = None


class Arrival(Call, frozen=True, kw_only=True):
    """Wait for the end of the transfer. Replied when the guest is there, or stays here."""


class Cancel(Call, frozen=True, kw_only=True):
    """Keep a guest that is being sent."""


class Plug(Call, frozen=True, kw_only=True):
    """Give the running guest another NIC."""

    nic: Nic


class Unplug(Call, frozen=True, kw_only=True):
    """Take a NIC of the running guest away, by the machine's name of its network."""

    name: str


class SetLink(Call, frozen=True, kw_only=True):
    """Set the link state of a NIC that the guest sees."""

    name: str
    up: bool


class Run(Call, frozen=True, kw_only=True):
    """Run a shell command of one line in the guest."""

    command: str


class Stop(Call, frozen=True, kw_only=True):
    """End the guest."""


class Answer(Struct, frozen=True, kw_only=True, tag_field="answer", tag=lambda name: name.lower()):
    """Base of what a launcher says."""


class Reply(Answer, frozen=True, kw_only=True):
    """The call was carried out, or `error` says why not. `status` and `text` are those of a command in the guest.

    `milliseconds` is how long the guest stood still while it was sent, `mtus` are those of the pod's interfaces before
    a guest was started or a NIC plugged in.
    """

    number: int
    error: str = ""
    status: int = 0
    text: str = ""
    milliseconds: int = 0
    mtus: dict[str, int] = {}


class Ended(Answer, frozen=True, kw_only=True):
    """QEMU has ended with this exit status; `text` is the end of what it printed."""

    status: int
    text: str


AnyCall = Start | Receive | Send | Arrival | Cancel | Plug | Unplug | SetLink | Run | Stop
AnyAnswer = Reply | Ended

_encoder = msgspec.json.Encoder()
_calls: msgspec.json.Decoder[AnyCall] = msgspec.json.Decoder(AnyCall)
_answers: msgspec.json.Decoder[AnyAnswer] = msgspec.json.Decoder(AnyAnswer)


def numbered(call: Call, number: int) -> Call:
    """Return the call with a number."""
    return structs.replace(call, number=number)


def encode(value: Struct) -> str:
    """Return a value as a line, without its end."""
    return _encoder.encode(value).decode()


def decode_call(line: str | bytes) -> AnyCall:
    """Return the call of a line. Raises msgspec.DecodeError."""
    return _calls.decode(line)


def decode_answer(line: str | bytes) -> AnyAnswer:
    """Return the answer of a line. Raises msgspec.DecodeError."""
    return _answers.decode(line)
