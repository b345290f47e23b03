"""Requests that were allowed to refer to a network but may not be stored yet.

Between the moment at which a webhook allows an object and the moment at which the API server stores it, no list shows
it. So the webhook writes its uid onto the NAD before it allows it, and that write is refused once the NAD is marked as
draining: whoever marked it knows everything that can still come. A request is settled when its object was seen, newer
than the request knew it, or when the API server must have given it up.
"""

from collections.abc import Callable, Iterable

import msgspec
from msgspec import Struct

from lanloom.api.dummy import ADMITTED
from lanloom.api.multus import NetworkAttachmentDefinition

REQUEST_SECONDS = 75.0
"""An API server gives up a request after 60 seconds (`--request-timeout`); clocks may differ a little."""

Seen = Callable[[str], int | None]
"""The newest known resourceVersion of an object by its uid, see `UserView.seen`."""


NAMESPACE_MAX = 200
"""Requests of one namespace that may be open at once: others must not be kept out by somebody who asks without end."""


class Admitted(Struct, frozen=True, order=True):
    """A request: the object's uid, the resourceVersion that it is based on (0 for a creation), and until when.

    `until` is in seconds since the epoch. `title` is for people: `VirtualMachine default/a`; `namespace` is its.
    """

    uid: str
    version: int
    until: float
    title: str
    namespace: str = ""


_DECODER = msgspec.json.Decoder(tuple[Admitted, ...])


def admitted(nad: NetworkAttachmentDefinition) -> tuple[Admitted, ...]:
    """What the NAD says of requests. Raises ValueError where that can't be read: then anything may come."""
    text = nad.metadata.annotations.get(ADMITTED, "")
    return _DECODER.decode(text) if text else ()


def noted(nad: NetworkAttachmentDefinition, more: Iterable[Admitted], seen: Seen, now: float) -> str:
    """The annotation's new value: without what is settled, with what is new.

    Of two requests about one object only the newer can be stored: the object has the version that it is based on, so
    the other one's is gone. Instead of what can't be read there stands somebody who may come, as long as he may.
    """
    try:
        known = admitted(nad)
    except ValueError:
        known = (Admitted("", 0, now + REQUEST_SECONDS, "somebody (what stood here could not be read)"),)
    every: dict[str, Admitted] = {}
    for item in (*unsettled(known, seen, now), *more):
        every[item.uid] = max(item, every.get(item.uid, item))
    return msgspec.json.encode(tuple(sorted(every.values()))).decode()


def unsettled(requests: Iterable[Admitted], seen: Seen, now: float) -> tuple[Admitted, ...]:
    """Those that may still be stored."""
    return tuple(item for item in requests if item.until > now and (seen(item.uid) or -1) <= item.version)


def is_crowded(nad: NetworkAttachmentDefinition, namespace: str, more: int, seen: Seen, now: float) -> bool:
    """Whether so many requests of a namespace are open that it has to wait; `more` are about to be noted."""
    try:
        known = unsettled(admitted(nad), seen, now)
    except ValueError:
        known = ()
    return more + sum(item.namespace == namespace for item in known) >= NAMESPACE_MAX
