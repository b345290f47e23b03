"""Networks under random operations, held against the oracle that knows every address by itself."""

from collections.abc import Callable
from functools import partial
from ipaddress import ip_address, ip_network
from itertools import count
from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec import UNSET
from msgspec.structs import replace

from lanloom.ipam.rules.addresses import IPV6, Address, format_address, parse_address
from lanloom.ipam.rules.change import Step, apply
from lanloom.ipam.rules.errors import Exhausted, IpamError, Refused
from lanloom.ipam.rules.ledger import Ledger
from lanloom.ipam.rules.model import Network, Pool, Subnet
from lanloom.ipam.rules.names import find_subnet
from lanloom.ipam.rules.pools import AddPool
from lanloom.ipam.rules.ranges import IPRange, subtract
from lanloom.ipam.rules.reserved import AddReserved
from lanloom.ipam.rules.subnets import AddSubnet, ModifySubnet, RemoveSubnet
from lanloom.ipam.rules.syntax import modify_steps
from lanloom.ipam.rules.validate import check_network, check_transition
from tests.ipam.rules.naive_network import IP, IPNetwork, NaiveNetwork, NoError, Picture, picture
from tests.ipam.rules.network_text import uuid

V4, V6 = ip_network("10.0.0.0/26"), ip_network("2001:db8::/120")
NAMES = st.sampled_from(["", "a", "b", "c"])
NOWHERE: list[IPNetwork] = []
RARELY = st.sampled_from([False, False, False, True])
OWNERS = st.sampled_from(["nic1", "nic2", "nic3"])


class Choice(NamedTuple):
    """A step as an option, and the same for the oracle."""

    kind: str
    option: str
    naive: Callable[[NaiveNetwork], None]


addresses = st.integers(0, 63).map(lambda n: V4[n]) | st.integers(0, 255).map(lambda n: V6[n])


@st.composite
def cidrs(draw: st.DrawFn, near: list[IPNetwork]) -> IPNetwork:
    """A network: anywhere, or one that is around or inside of one of those near."""
    if near and not draw(RARELY):
        base = draw(st.sampled_from(near))
        address = base[draw(st.integers(0, base.num_addresses - 1))]
        length = base.prefixlen + draw(st.integers(-2, 2))
    else:
        address = draw(addresses)
        length = draw(st.integers(27, 32)) + (94 if address.version == 6 else 0)
    least, most = (26, 32) if address.version == 4 else (120, 128)
    return ip_network((address, min(max(length, least), most)), strict=False)


@st.composite
def ranges(draw: st.DrawFn, near: list[IPNetwork]) -> tuple[str, set[IP]]:
    """A range, and its addresses: mostly in one of those near."""
    anywhere = not near or not draw(st.integers(0, 5))
    every = draw(st.sampled_from([V4, V6])) if anywhere else draw(st.sampled_from(near))
    first = draw(st.integers(0, every.num_addresses - 1))
    last = min(first + draw(st.sampled_from([0, 0, 1, 2, 4, 7, 12, 39])), every.num_addresses - 1)
    return f"{every[first]}-{every[last]}", {every[number] for number in range(first, last + 1)}


def gateways(cidr: IPNetwork) -> st.SearchStrategy[IP | None]:
    """None, an address inside, or any at all."""
    inside = st.integers(0, cidr.num_addresses - 1).map(lambda number: cidr[number])
    return st.none() | inside | inside | addresses


def param(key: str, value: object) -> str:
    """`key=value`, or `-key` for what is none."""
    return f",{key}={value}" if value else f",-{key}"


@st.composite
def added_subnets(draw: st.DrawFn) -> Choice:
    """A new subnet."""
    cidr, name, dhcp, pool = draw(cidrs(NOWHERE)), draw(NAMES), draw(RARELY), draw(st.booleans())
    gateway = draw(gateways(cidr))
    flags = (",dhcp" if dhcp else "") + (",pool" if pool else "")
    option = f"add:cidr={cidr}{param('gateway', gateway)}{param('name', name)}{flags}"
    return Choice("subnet", option, lambda net: net.add_subnet(cidr, gateway, dhcp, name, pool))


@st.composite
def changed_subnets(draw: st.DrawFn, near: list[IPNetwork], idents: list[str]) -> Choice:
    """A subnet that is modified or removed."""
    ident = draw(st.sampled_from(idents))
    if draw(RARELY):
        option = draw(st.sampled_from([f"{ident}:remove", f"remove:{ident}"]))
        return Choice("subnet", option, lambda net: net.remove_subnet(ident))
    cidr = draw(cidrs(near))
    possible = {"cidr": st.just(cidr), "gateway": gateways(cidr), "dhcp": RARELY, "name": NAMES}
    keys = draw(st.lists(st.sampled_from(sorted(possible)), min_size=1, max_size=3, unique=True))
    changes = {key: draw(possible[key]) for key in keys}
    texts = (param(key, str(value).lower() if key == "dhcp" else value) for key, value in changes.items())
    option = f"{ident}:modify{''.join(texts)}"
    return Choice("subnet", option, lambda net: net.modify_subnet(ident, **changes))


@st.composite
def pools(
    draw: st.DrawFn, near: list[IPNetwork], idents: list[str], present: list[tuple[str, set[IP]]]
) -> Choice:
    """A pool that is added, modified or removed."""
    what, name, disabled = draw(st.sampled_from("aaamrrrn")), draw(NAMES), draw(RARELY)
    text, members = draw(
        ranges(near) if what == "a" or not present else ranges(near) | st.sampled_from(present)
    )
    flags = param("name", name) + f",disabled={str(disabled).lower()}"
    if what == "a":
        if draw(RARELY):
            ident = draw(st.sampled_from(idents))
            return Choice(
                "pool", f"add:subnet={ident}{flags}", lambda net: net.add_pool(ident, name, disabled)
            )
        return Choice("pool", f"add:{text}{flags}", lambda net: net.add_pool(members, name, disabled))
    if what == "m":
        change = {"name": name, "disabled": disabled}
        return Choice("pool", f"{text}:modify{flags}", lambda net: net.modify_pool(members, **change))
    if what == "n":
        label = name or "z"
        return Choice("pool", f"{label}:remove", lambda net: net.remove_pool(label))
    option = draw(st.sampled_from([f"remove:{text}", f"{text}:remove"]))
    return Choice("pool", option, lambda net: net.remove_pool(members))


@st.composite
def reserved(draw: st.DrawFn, near: list[IPNetwork]) -> Choice:
    """A range that is reserved, or no longer."""
    text, members = draw(ranges(near))
    if draw(st.booleans()):
        return Choice("add", text, lambda net: net.add_reserved(members))
    return Choice("remove", text, lambda net: net.remove_reserved(members))


class Networks(RuleBasedStateMachine):
    """A network and its oracle."""

    def __init__(self) -> None:
        super().__init__()
        self.network = Network(id="net1", name="net1")
        self.ledger = Ledger(self.network)
        self.naive = NaiveNetwork()
        self.numbers = count(1)

    @initialize(four=st.booleans(), six=st.booleans())
    def begin(self, four: bool, six: bool) -> None:
        """Mostly, something is there from the beginning."""
        for wanted, every in ((four, V4[16]), (six, V6[128])):
            cidr = ip_network((every, 28 if every.version == 4 else 122))
            if wanted:
                naive = partial(
                    NaiveNetwork.add_subnet, cidr=cidr, gateway=None, dhcp=False, name="", pool=True
                )
                self.perform([Choice("subnet", f"add:cidr={cidr},pool", naive)])

    @rule(data=st.data())
    def change_subnets(self, data: st.DataObject) -> None:
        """One step on a subnet."""
        near, idents, _ = self.known()
        self.perform(
            [data.draw(added_subnets() | changed_subnets(near, idents) | changed_subnets(near, idents))]
        )

    @rule(data=st.data())
    def change_pools(self, data: st.DataObject) -> None:
        """One step on a pool."""
        self.perform([data.draw(pools(*self.known()))])

    @rule(data=st.data())
    def change_reserved(self, data: st.DataObject) -> None:
        """One step on reserved addresses."""
        self.perform([data.draw(reserved(self.known()[0]))])

    @rule(data=st.data())
    def operate(self, data: st.DataObject) -> None:
        """Several steps as one operation: the oracle says the same, and a refused one changes nothing."""
        near, idents, present = self.known()
        pool = pools(near, idents, present)
        step = added_subnets() | changed_subnets(near, idents) | pool | pool | reserved(near)
        self.perform(data.draw(st.lists(step, min_size=2, max_size=3)))

    def known(self) -> tuple[list[IPNetwork], list[str], list[tuple[str, set[IP]]]]:
        """The subnets that there are, what they may be called, and the pools."""
        subnets = self.naive.subnets
        near = [one.cidr for one in subnets]
        names = [one.name for one in subnets if one.name]
        present = [
            (f"{min(pool.addresses, key=int)}-{max(pool.addresses, key=int)}", set(pool.addresses))
            for one in subnets
            for pool in one.pools
        ]
        return near, [*map(str, near), *names, *([] if near else ["z"])], present

    def perform(self, choices: list[Choice]) -> None:
        """Does it in both worlds."""
        kinds = {
            kind: [one for one in choices if one.kind == kind] for kind in ("subnet", "pool", "add", "remove")
        }
        expected = self.naive.copy()
        try:
            for group in kinds.values():
                for one in group:
                    one.naive(expected)
            possible = True
        except NoError:
            possible = False
        steps: tuple[Step, ...] = ()
        try:
            texts = {kind: [one.option for one in group] for kind, group in kinds.items()}
            joined = {kind: ",".join(texts[kind]) or None for kind in ("add", "remove")}
            steps = modify_steps(texts["subnet"], texts["pool"], joined["add"], joined["remove"])
            after = apply(self.network, steps, self.ledger, lambda: uuid(next(self.numbers))).network
        except IpamError:
            assert not possible
            after = None
        if len(steps) == 1:
            self.judge_as_an_edit(steps[0], possible)
        if after is None:
            return
        assert possible
        check_network(after)
        check_transition(self.network, after, self.ledger)
        self.network, self.naive = after, expected
        self.ledger.reconfigure(after)

    def judge_as_an_edit(self, step: Step, possible: bool) -> None:
        """The same change, written into the object by hand, is judged alike."""
        edited = by_hand(self.network, step)
        if edited is None:
            return
        try:
            check_network(edited)
            check_transition(self.network, edited, self.ledger)
            assert possible
        except IpamError:
            assert not possible

    @rule(address=addresses, owner=OWNERS)
    def take(self, address: IP, owner: str) -> None:
        """A NIC takes an address by force, wherever it is free."""
        operation = self.ledger.begin()
        free = (
            any(address in one.addresses for one in self.naive.subnets) and address not in self.naive.owners
        )
        try:
            operation.take(parse_address(str(address)), owner, force=True)
            assert free
            self.naive.owners[address] = owner
        except Refused:
            assert not free
        operation.commit()

    @rule(request=st.sampled_from(["pool", "pool4", "pool6", "a", "b"]), owner=OWNERS)
    def take_next(self, request: str, owner: str) -> None:
        """A NIC gets the lowest free address of what it asks for."""
        version = {"pool4": 4, "pool6": 6}.get(request)
        expected = self.naive.next_free("" if request.startswith("pool") else request, version)
        operation = self.ledger.begin()
        try:
            address = operation.take_next(owner, request)
            assert str(expected) == format_address(address)
            self.naive.owners[ip_address(format_address(address))] = owner
        except Exhausted:
            assert expected is None
        operation.commit()

    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        """A NIC gives an address back."""
        if self.naive.owners:
            address = data.draw(st.sampled_from(sorted(self.naive.owners, key=int)))
            operation = self.ledger.begin()
            operation.release(parse_address(str(address)), self.naive.owners.pop(address))
            operation.commit()

    @invariant()
    def same(self) -> None:
        """Both worlds look alike, and everybody's address is in a subnet."""
        assert real_picture(self.network) == picture(self.naive)
        for address, owner in self.naive.owners.items():
            assert self.network.subnet_of(parse_address(str(address))) is not None
            assert self.ledger.owner_of(parse_address(str(address))) == owner


def real_picture(network: Network) -> Picture:
    """The network in the oracle's form."""
    return [
        (
            str(one.cidr),
            "" if one.gateway is None else format_address(one.gateway),
            one.dhcp,
            one.name,
            [(numbers(pool.range), pool.name, pool.disabled) for pool in one.pools],
            [number for item in one.external for number in numbers(item)],
        )
        for one in network.subnets
    ]


def numbers(range_: IPRange) -> list[int]:
    """The values of a range's addresses."""
    return [value(address) for address in range(range_.first, range_.last + 1)]


def value(address: Address) -> int:
    """The number that an address is."""
    return address - IPV6 if address >= IPV6 else address


def by_hand(network: Network, step: Step) -> Network | None:
    """What an object looks like to which somebody did, without any rule, what a step does; None if there is none."""
    match step:
        case AddSubnet():
            around = (Pool(range=step.cidr.range),) if step.pool else ()
            new = Subnet(
                uuid=uuid(99),
                cidr=step.cidr,
                gateway=step.gateway,
                dhcp=step.dhcp,
                name=step.name,
                pools=around,
            )
            return replace(network, subnets=(*network.subnets, new))
        case AddPool() if step.range and network.subnets:
            return with_range(network, step.range, Pool(range=step.range, name=step.name))
        case AddReserved() if network.subnets:
            return with_range(network, step.range, None)
        case ModifySubnet() | RemoveSubnet():
            return resized(network, step)
        case _:
            return None


def with_range(network: Network, range_: IPRange, pool: Pool | None) -> Network:
    """With a pool or reserved range in the subnet that has its first address, or in the first one."""
    home = network.subnet_of(range_.first) or network.subnets[0]
    if pool:
        new = replace(home, pools=tuple(sorted((*home.pools, pool), key=lambda one: one.range)))
    else:
        new = replace(home, external=(*home.external, range_))
    return replace(network, subnets=tuple(new if one is home else one for one in network.subnets))


def resized(network: Network, step: ModifySubnet | RemoveSubnet) -> Network | None:
    """Without a subnet, or with another form of it: pools are trimmed, and reserved addresses that were edges."""
    try:
        old = find_subnet(network, step.ident)
    except Refused:
        return None
    if isinstance(step, RemoveSubnet):
        return replace(network, subnets=tuple(one for one in network.subnets if one is not old))
    cidr = step.cidr or old.cidr
    edges = [IPRange(edge, edge) for edge in old.edges if edge not in cidr.range]
    new = replace(
        old,
        cidr=cidr,
        gateway=old.gateway if step.gateway is UNSET else step.gateway,
        dhcp=old.dhcp if step.dhcp is None else step.dhcp,
        name=old.name if step.name is None else step.name,
        pools=tuple(
            replace(pool, range=common) for pool in old.pools if (common := pool.range.common(cidr.range))
        ),
        external=subtract(old.external, edges),
    )
    return replace(network, subnets=tuple(new if one is old else one for one in network.subnets))


TestNetworks = Networks.TestCase
TestNetworks.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
