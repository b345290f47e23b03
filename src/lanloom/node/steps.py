"""Changes of a host as values: a plan is a tuple of steps, made by rules and applied by an adapter, in order.

Each step is idempotent: applying it to a host that already has its effect changes nothing and is no error, because an
agent may die after any step and plan again.
"""

from msgspec import Struct

from lanloom.node.vlanids import VlanIds


class EnsureBond(Struct, frozen=True, kw_only=True, tag=True):
    """A bond with Lanloom's mark, up. `miimon` in milliseconds, None for the kernel's default.

    `tx_queue_length` in packets and `mac` are left as they are where they are None and empty. The NICs of a bond
    have its `mtu` and, in most modes, its `mac`; the kernel forgets the `mac` when the last NIC is released.
    """

    name: str
    mode: str
    miimon: int | None = None
    mtu: int
    tx_queue_length: int | None = None
    mac: str = ""


class EnsureBridge(Struct, frozen=True, kw_only=True, tag=True):
    """A VLAN-filtering bridge with Lanloom's mark, up. Its `mtu` stays as it is set, whatever its ports have."""

    name: str
    mtu: int


class SetMaster(Struct, frozen=True, kw_only=True, tag=True):
    """Puts `link` under `master` and up; an empty master releases it.

    A link that joins a bond is taken down first, because the kernel wants that.
    """

    link: str
    master: str


class SetMtu(Struct, frozen=True, kw_only=True, tag=True):
    """The MTU of a link, in bytes."""

    link: str
    mtu: int


class SetUp(Struct, frozen=True, kw_only=True, tag=True):
    """Sets a link up: a NIC, a link with Lanloom's mark, or a VLAN link on one.

    A VLAN link can't be set up while its parent is down; setting the parent up sets it up too.
    """

    link: str


class AddVlans(Struct, frozen=True, kw_only=True, tag=True):
    """Tagged VLAN ids onto a bridge port, or with `self_` onto the bridge itself."""

    link: str
    ids: VlanIds
    self_: bool = False


class RemoveVlans(Struct, frozen=True, kw_only=True, tag=True):
    """VLAN ids off a bridge port, or with `self_` off the bridge itself."""

    link: str
    ids: VlanIds
    self_: bool = False


class DeleteLink(Struct, frozen=True, kw_only=True, tag=True):
    """Deletes a link with Lanloom's mark, a VLAN link on one, or a half-made isolated bridge; else raises NotOurs.

    A missing link is no error.
    """

    name: str


class Port(Struct, frozen=True):
    """A link that is or was a port of a bridge; another link of the same name has another index."""

    name: str
    index: int


class EnsureIsolatedBridge(Struct, frozen=True, kw_only=True, tag=True):
    """A bridge marked as the isolated one of `owner` (a uid), up, without spanning tree.

    The host gets no IPv6 link-local address on it, and takes part in its IPv4 only with the bridge's own addresses;
    with a `gateway` (a CIDR, which CNI's plugin gives the bridge) it passes packets on. It filters no VLANs: nothing
    leaves it, whatever its tags, so there is nothing to keep apart; its guests may use VLANs of their own, and it
    works on kernels that can't filter.
    The MTU is left to the kernel, which takes the least of the ports'. What CNI's `bridge` plugin made under that name
    (see `node.adoption`), perhaps with the address `gateway`, is marked and kept; so is the bridge with the index
    `known`, which was the owner's before somebody changed its mark. Raises NotOurs where another link of that name is
    there that is not that owner's.

    A bridge that is made gets those of `ports` that are there and under nobody: it is in the place of one that somebody
    deleted from under them.
    """

    name: str
    owner: str
    gateway: str = ""
    known: int = 0
    ports: tuple[Port, ...] = ()


class RemoveIsolatedBridge(Struct, frozen=True, kw_only=True, tag=True):
    """Deletes the isolated bridge of that name and `owner`. A missing one is no error.

    Raises LinkInUse while anything is a port of it or stands on it, and NotOurs for a link that is not that owner's.
    """

    name: str
    owner: str


LinkStep = (
    EnsureBond
    | EnsureBridge
    | SetMaster
    | SetMtu
    | SetUp
    | AddVlans
    | RemoveVlans
    | DeleteLink
    | EnsureIsolatedBridge
    | RemoveIsolatedBridge
)
