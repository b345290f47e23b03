"""Networks under random operations, held against the oracle that knows every address by itself."""

from functools import partial
from ipaddress import ip_address, ip_network
from itertools import count

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from lanloom.features.ipam.cli.grammar.syntax import modify_steps
from lanloom.features.ipam.rules.addresses import (
    IPV6,
    Address,
    IPRange,
    format_address,
    parse_address,
)
from lanloom.features.ipam.rules.change import Step, apply
from lanloom.features.ipam.rules.ledger import Exhausted, Ledger
from lanloom.features.ipam.rules.model import Network
from lanloom.features.ipam.rules.validate import check_network, check_transition
from lanloom.refusals import Denied, Refusal
from tests.features.ipam.rules.naive_network import (
    IP,
    IPNetwork,
    NaiveNetwork,
    NoError,
    Picture,
    picture,
)
from tests.features.ipam.rules.network_choices import (
    StepCase,
    added_subnets,
    addresses,
    changed_subnets,
    pools,
    reserved,
)
from tests.features.ipam.rules.network_edits import by_hand
from tests.features.ipam.rules.network_text import uuid

OWNERS = st.sampled_from(["nic1", "nic2", "nic3"])


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
        for wanted, cidr in ((four, ip_network("10.0.0.16/28")), (six, ip_network("2001:db8::80/122"))):
            if wanted:
                naive = partial(
                    NaiveNetwork.add_subnet, cidr=cidr, gateway=None, dhcp=False, name="", pool=True
                )
                self.perform([StepCase("subnet", f"add:cidr={cidr},pool", naive)])

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

    def perform(self, choices: list[StepCase]) -> None:
        """Do it in both."""
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
        except Refusal:
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
        except Refusal:
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
        except Denied:
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
        """Both models look alike, and each address in use is in a subnet."""
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


TestNetworks = Networks.TestCase
TestNetworks.settings = settings(max_examples=300, stateful_step_count=40, deadline=None)
pytestmark = pytest.mark.slow
