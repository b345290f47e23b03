"""What a client is answered over IPv6, by RFC 8415 and RFC 4861: a pure function of what it says and what its NIC has.

As for IPv4 (`answers`), there are no leases to keep, and every server of Lanloom says the same. A router advertisement
says that there is DHCPv6 and which prefix is on the link, as DHCPv6 itself can't; it goes along with each lease, so
both last as long. Routes are the word of the network's own router alone.
"""

from ipaddress import IPv6Address, IPv6Network

from msgspec import Struct

from lanloom.features.ipam.dhcp.answers import DEFAULT_SECONDS, RENEW_SECONDS
from lanloom.features.ipam.dhcp.packet6 import (
    SERVER_DUID,
    Advertisement,
    Answer6,
    Association,
    Granted,
    Heard6,
    Kind6,
    Message,
    Probe,
    Solicitation,
    Status,
)

REFRESH_SECONDS = 600
"""Until a client asks for settings again that has its address by other means: the shortest time of RFC 8415, 7.6."""

_ANY_SERVER = frozenset({Kind6.SOLICIT, Kind6.CONFIRM, Kind6.REBIND})
_ONE_SERVER = frozenset({Kind6.REQUEST, Kind6.RENEW, Kind6.RELEASE, Kind6.DECLINE})


class Given6(Struct, frozen=True, kw_only=True):
    """What a NIC has for its guest: the addresses of the subnet `prefix`, and all that it has, `owned`.

    `mtu` is in bytes, 0 for the client's own; `seconds` is how long the lease lasts.
    """

    addresses: tuple[IPv6Address, ...]
    prefix: IPv6Network
    owned: frozenset[IPv6Address]
    dns: tuple[IPv6Address, ...] = ()
    search: tuple[str, ...] = ()
    mtu: int = 0
    seconds: int = DEFAULT_SECONDS


class Decision6(Struct, frozen=True, kw_only=True):
    """`answer` and `advertisement` are None for silence, `why` a word for metrics.

    `other` is the DUID of the server by which the guest has another address, `stray` another address that the guest is
    about to use, `declined` one of its own that it found in use.
    """

    why: str
    answer: Answer6 | None = None
    advertisement: Advertisement | None = None
    other: bytes = b""
    stray: IPv6Address | None = None
    declined: IPv6Address | None = None


IGNORED = Decision6(why="ignored")


def decide6(heard: Heard6, mac: str, given: Given6 | None) -> Decision6:
    """Return what the client with that hardware address is answered; it has nothing to get with None."""
    if heard.source != mac:
        return Decision6(why="foreign")
    if given is None:
        return Decision6(why="unserved")
    match heard:
        case Solicitation():
            return Decision6(why="router", advertisement=_advertisement(given))
        case Probe():
            stray = heard.target if heard.target not in given.owned else None
            return Decision6(why="probe" if stray is None else "stray", stray=stray)
        case Message():
            return _message(heard, given)


def _message(message: Message, given: Given6) -> Decision6:
    """Answer a message that is complete (RFC 8415, 16)."""
    kind = message.kind
    if kind == Kind6.INFORMATION_REQUEST:
        right = not message.associations and message.server in (b"", SERVER_DUID)
        return Decision6(why="inform", answer=_settings(given)) if right else IGNORED
    complete = bool(message.client) and kind in (_ONE_SERVER if message.server else _ANY_SERVER)
    if not (complete and (message.associations or kind == Kind6.RELEASE)):
        return IGNORED
    named = [address for each in message.associations for address in each.addresses]
    if message.server not in (b"", SERVER_DUID):
        return _elsewhere(message, named, given)
    match kind:
        case Kind6.CONFIRM:
            return _confirmed(named, given)
        case Kind6.RELEASE:
            return Decision6(why="released", answer=_done(Status.SUCCESS))
        case Kind6.DECLINE:
            declined = next((address for address in named if address in given.addresses), None)
            why = "declined" if declined is not None else "ignored"
            return Decision6(why=why, answer=_done(Status.SUCCESS), declined=declined)
        case _:
            return _lease(message, given)


def _elsewhere(message: Message, named: list[IPv6Address], given: Given6) -> Decision6:
    """Leave a client to the server that it chose, and tell of an address that is not its NIC's."""
    if message.kind not in (Kind6.REQUEST, Kind6.RENEW):
        return IGNORED
    other = message.server if any(address not in given.owned for address in named) else b""
    return Decision6(why="elsewhere", other=other)


def _confirmed(named: list[IPv6Address], given: Given6) -> Decision6:
    """Say whether a client that comes back to a link may use what it had. Without addresses there is no question."""
    if not named:
        return IGNORED
    if all(address in given.addresses for address in named):
        return Decision6(why="ack", answer=_done(Status.SUCCESS), advertisement=_advertisement(given))
    return Decision6(why="refused", answer=_done(Status.NOT_ON_LINK))


def _lease(message: Message, given: Given6) -> Decision6:
    """Give all addresses to the first association, and take away what the client has besides.

    A request for an address of another link begins again (RFC 8415, 18.3.2).
    """
    first, *others = message.associations
    kind = message.kind
    offer = kind == Kind6.SOLICIT and not message.rapid
    strange = [address for address in first.addresses if address not in given.prefix]
    if kind == Kind6.REQUEST and strange:
        refused = tuple(Granted(id=each.id, status=Status.NOT_ON_LINK) for each in message.associations)
        return Decision6(why="refused", answer=Answer6(kind=Kind6.REPLY, granted=refused))
    renews = kind in (Kind6.RENEW, Kind6.REBIND)
    granted = (
        Granted(id=first.id, addresses=given.addresses, former=_former(first, given) if renews else ()),
        *(
            Granted(id=each.id, former=_former(each, given) if renews else (), status=Status.NO_ADDRESSES)
            for each in others
        ),
    )
    answer = Answer6(
        kind=Kind6.ADVERTISE if offer else Kind6.REPLY,
        granted=granted,
        seconds=given.seconds,
        renew=min(RENEW_SECONDS, given.seconds // 2),
        rebind=given.seconds * 7 // 8,
        rapid=message.rapid and kind == Kind6.SOLICIT,
        dns=given.dns,
        search=given.search,
    )
    if offer:
        return Decision6(why="offer", answer=answer)
    why = "refused" if any(each.former for each in granted) else "ack"
    return Decision6(why=why, answer=answer, advertisement=_advertisement(given))


def _former(association: Association, given: Given6) -> tuple[IPv6Address, ...]:
    return tuple(address for address in association.addresses if address not in given.addresses)


def _settings(given: Given6) -> Answer6:
    """Return what a client gets that has its address by other means."""
    return Answer6(kind=Kind6.REPLY, refresh=REFRESH_SECONDS, dns=given.dns, search=given.search)


def _done(status: Status) -> Answer6:
    return Answer6(kind=Kind6.REPLY, status=status)


def _advertisement(given: Given6) -> Advertisement:
    return Advertisement(prefix=given.prefix, seconds=given.seconds, mtu=given.mtu)
