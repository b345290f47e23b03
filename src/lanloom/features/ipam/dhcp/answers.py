"""What a request of a client is answered, by RFC 2131: a pure function of the request and of what its NIC has.

There are no leases to keep: a NIC has its address until the allocator takes it away, so every answer follows from the
NIC, whichever agent gives it. A client has to renew often (`RENEW_SECONDS`) and its lease ends late: a move
to another network is noticed soon, and a node whose agent is away for hours takes no address from a guest.
"""

from ipaddress import IPv4Address, IPv4Interface

from msgspec import Struct

from lanloom.features.ipam.dhcp.packet import ANY, BROADCAST, Answer, GuestRoute, Kind, Request

SERVER = IPv4Address("169.254.0.67")
"""The address of every server of Lanloom, which no other DHCP server has, and no station (RFC 3927, 2.1).

A machine that migrates finds the same server on its new node. Packets to it leave no link: no router passes them on.
"""

RENEW_SECONDS = 300
DEFAULT_SECONDS = 86_400


class Given(Struct, frozen=True, kw_only=True):
    """What a NIC has for its guest. `mtu` in bytes, 0 for the client's own; `seconds` is how long the lease lasts."""

    address: IPv4Interface
    router: IPv4Address | None = None
    dns: tuple[IPv4Address, ...] = ()
    domain: str = ""
    search: tuple[str, ...] = ()
    host: str = ""
    mtu: int = 0
    routes: tuple[GuestRoute, ...] = ()
    seconds: int = DEFAULT_SECONDS


class Decision(Struct, frozen=True, kw_only=True):
    """`answer` is None for silence, `why` a word for it in metrics.

    `other` is the server by which the guest has another address, `declined` an address that the guest found in use.
    """

    why: str
    answer: Answer | None = None
    other: IPv4Address | None = None
    declined: IPv4Address | None = None


def is_of(request: Request, mac: str) -> bool:
    """Return whether the client of a port asks for itself, and not for another one, nor as a relay agent."""
    return request.source == request.client == mac and request.relay == ANY


def decide(request: Request, mac: str, given: Given | None) -> Decision:
    """Return what the client with that hardware address is answered; it has nothing to get with None."""
    if not is_of(request, mac):
        return Decision(why="foreign")
    if given is None:
        return Decision(why="unserved")
    match request.kind:
        case Kind.DISCOVER:
            return Decision(why="offer", answer=_lease(Kind.OFFER, given))
        case Kind.REQUEST:
            return _requested(request, given)
        case Kind.DECLINE if request.wants == given.address.ip and request.server in (None, SERVER):
            return Decision(why="declined", declined=given.address.ip)
        case Kind.INFORM if request.has != ANY and _asked(request) in (None, SERVER):
            return Decision(why="inform", answer=_settings(given))
    return Decision(why="ignored")


def _requested(request: Request, given: Given) -> Decision:
    """Answer a client that selects an offer, starts again with a former address, or renews the one that it has."""
    own = given.address.ip
    wanted = request.wants if request.has == ANY else request.has
    server = request.server if request.server is not None else _asked(request)
    if server not in (None, SERVER):
        return Decision(why="elsewhere", other=server if wanted != own else None)
    if wanted is None:
        return Decision(why="ignored")
    if wanted != own:
        return Decision(why="refused", answer=Answer(kind=Kind.NAK, server=SERVER))
    return Decision(why="ack", answer=_lease(Kind.ACK, given))


def _asked(request: Request) -> IPv4Address | None:
    """Return the one server that a client asks that renews; None for one that asks all of them."""
    return None if request.to == BROADCAST else request.to


def _lease(kind: Kind, given: Given) -> Answer:
    return Answer(
        kind=kind,
        server=SERVER,
        address=given.address.ip,
        mask=given.address.netmask,
        router=given.router,
        dns=given.dns,
        domain=given.domain,
        search=given.search,
        host=given.host,
        mtu=given.mtu,
        routes=given.routes,
        seconds=given.seconds,
        renew=min(RENEW_SECONDS, given.seconds // 2),
        rebind=given.seconds * 7 // 8,
    )


def _settings(given: Given) -> Answer:
    """Return what a client gets that has its address by other means: no address, and no lease of one."""
    return Answer(
        kind=Kind.ACK,
        server=SERVER,
        mask=given.address.netmask,
        router=given.router,
        dns=given.dns,
        domain=given.domain,
        search=given.search,
        mtu=given.mtu,
        routes=given.routes,
    )
