"""The NICs of an instance before and after `--net` options."""

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanloom.features.ipam.cli.grammar.net_option import changes
from lanloom.features.ipam.cli.grammar.nics import (
    NicContext,
    WantedNic,
    addresses_now,
    apply,
    has_its_addresses,
)
from lanloom.features.ipam.rules.addresses import Address, format_address, parse_address
from lanloom.features.ipam.rules.ledger import (
    AddressInUse,
    AddressReserved,
    Exhausted,
    Ledger,
    OutsideSubnets,
)
from lanloom.features.ipam.rules.model import Network
from lanloom.features.ipam.rules.requests import Macs, parse_mac
from lanloom.refusals import Denied, Malformed, Refusal
from tests.features.ipam.rules.ledgers import subnet
from tests.features.ipam.rules.test_requests import pool
from tests.harness.examples import examples

NET1 = Network(
    id="net1",
    name="net1",
    subnets=(
        subnet(
            "192.0.2.0/24",
            pool("192.0.2.10-192.0.2.20", "p"),
            gateway="192.0.2.1",
            external=["192.0.2.100", "192.0.2.10"],
        ),
    ),
)
NET2 = Network(
    id="other",
    name="net2",
    uuid="b1f6e6a2-0a8e-4a7e-9a57-0cf1d29c6a54",
    mac_prefix="aa:bb:cc",
    subnets=(
        subnet("192.0.2.0/25", pool("192.0.2.64/28"), external=["192.0.2.6"]),
        subnet("2001:db8::/64", pool("2001:db8::/64"), gateway="2001:db8::1"),
    ),
)
NETWORKS = {network.id: network for network in (NET1, NET2)}
UUIDS = ("00000000-0000-0000-0000-00000000000a", "00000000-0000-0000-0000-00000000000b")
OTHERS = {
    "net1": {"default/other-0": ["192.0.2.50", "192.0.2.11"]},
    "other": {"default/other-1": ["192.0.2.5"]},
}


def nic(number: int, *ips: str, network: str = "net1", name: str = "") -> WantedNic:
    """A NIC that has its addresses."""
    return WantedNic(
        key=f"default/inst1-{number}",
        uuid=UUIDS[number],
        name=name,
        network=network,
        ips=ips,
        held=tuple(map(parse_address, ips)),
        mac=f"aa:00:00:00:00:0{number}",
    )


NICS = (nic(0, "192.0.2.4", "192.0.2.6", "192.0.2.7", name="web"), nic(1, "192.0.2.5"))


def find(ident: str) -> Network:
    """The network of a name or UUID."""
    found = [item for item in NETWORKS.values() if ident in (item.name, item.uuid)]
    if not found:
        raise Denied(f"there is no network {ident}")
    return found[0]


def ledgers(nics: Sequence[WantedNic]) -> dict[str, Ledger]:
    """Who owns what: these NICs, and others."""
    owned: dict[str, dict[str, list[Address]]] = {
        network: {key: list(map(parse_address, ips)) for key, ips in others.items()}
        for network, others in OTHERS.items()
    }
    for item in nics:
        if item.network:
            owned[item.network][item.key] = list(item.held)
    return {id_: Ledger(network, owned[id_]) for id_, network in NETWORKS.items()}


def after(*options: str, nics: Sequence[WantedNic] = NICS, force: bool = False) -> tuple[WantedNic, ...]:
    """The NICs after options."""
    context = NicContext(
        find=find, by_id=NETWORKS.get, macs=Macs([item.mac for item in nics], Random(1)), force=force
    )
    return apply(nics, changes(options), context)


def ips(*options: str, nics: Sequence[WantedNic] = NICS, force: bool = False) -> list[list[str]]:
    """The addresses that the NICs would have after options."""
    changed = after(*options, nics=nics, force=force)
    keyed = [item if item.key else replaced_key(item, index) for index, item in enumerate(changed)]
    found = addresses_now(keyed, ledgers(nics).__getitem__)
    return [list(map(format_address, addresses)) for addresses in found]


def replaced_key(item: WantedNic, index: int) -> WantedNic:
    """A new NIC with the key that it would get."""
    return WantedNic(
        key=f"default/new-{index}", network=item.network, ips=item.ips, force=item.force, mac=item.mac
    )


UNTOUCHED = ["192.0.2.5"]


@pytest.mark.parametrize(
    ("option", "found"),
    [
        ("0:modify,ip0=192.0.2.8", ["192.0.2.8", "192.0.2.6", "192.0.2.7"]),
        ("0:ip=pool", ["192.0.2.12", "192.0.2.6", "192.0.2.7"]),
        ("web:modify,ip1=p,ip0=p", ["192.0.2.12", "192.0.2.13", "192.0.2.7"]),
        (f"{UUIDS[0].upper()}:modify,ip3=pool4", ["192.0.2.4", "192.0.2.6", "192.0.2.7", "192.0.2.12"]),
        (
            "0:modify,ip4=pool,ip3=192.0.2.12",
            ["192.0.2.4", "192.0.2.6", "192.0.2.7", "192.0.2.12", "192.0.2.13"],
        ),
        ("0:modify,ip1=none", ["192.0.2.4", "192.0.2.7"]),
        ("0:modify,ip0=none,ip2=192.0.2.9,ip1=none", ["192.0.2.9"]),
        ("0:modify,ip0=none,ip3=pool", ["192.0.2.6", "192.0.2.7", "192.0.2.12"]),
        ("0:modify,ip=none,ip1=none,ip2=none", []),
        ("0:modify,ip0=192.0.2.4", ["192.0.2.4", "192.0.2.6", "192.0.2.7"]),
        ("0:network=net1,ip0=192.0.2.4", ["192.0.2.4", "192.0.2.6", "192.0.2.7"]),
    ],
)
def test_addresses_by_index(option: str, found: list[str]) -> None:
    """Indices mean the list before; sets come first, then removals; what is not mentioned stays; appends follow."""
    assert ips(option) == [found, UNTOUCHED]


@pytest.mark.parametrize(
    ("option", "error", "message"),
    [
        ("0:modify,ip4=pool", Denied, "has 3 addresses, so the next one is ip3"),
        (
            "1:modify,ip1=pool,ip3=pool",
            Denied,
            "has 1 address, so the next one is ip1; leave no gap before ip3",
        ),
        ("0:modify,ip3=none", Denied, "no ip3 to remove"),
        ("0:modify,ip0=192.0.2.6", Denied, "192.0.2.6 already belongs to this NIC"),
        ("0:modify,ip0=192.0.2.6,ip1=192.0.2.4", Denied, "already belongs to this NIC"),
        ("0:modify,ip0=192.0.2.6,ip1=none", Denied, "already belongs to this NIC"),
        ("0:modify,ip3=192.0.2.4", Denied, "already belongs to this NIC"),
        (
            "0:modify,ip0=192.0.2.5",
            AddressInUse,
            "192.0.2.5 is already used .NIC default/inst1-1|already used",
        ),
        ("0:modify,ip0=192.0.2.50", AddressInUse, "already used"),
        ("0:modify,ip0=192.0.2.100", AddressReserved, "externally reserved"),
        ("0:modify,ip0=10.0.0.1", OutsideSubnets, "does not contain 10.0.0.1"),
        ("0:modify,ip0=pool6", Exhausted, "no IPv6 pool"),
        ("0:modify,ip0=nosuch", Denied, 'no pool "nosuch"'),
        ("2:modify,ip0=pool", Denied, r'NIC "2" does not exist; NICs are: 0 \(web\), 1'),
        ("db:remove", Denied, 'NIC "db" does not exist'),
        ("-2:modify,ip0=pool", Denied, 'NIC "-2" does not exist'),
        ("3:add,ip0=pool,network=net1", Denied, "the next NIC is 2"),
        ("-1:add,ip0=pool,network=net3", Denied, "no network net3"),
        ("1:modify,name=web", Denied, "NIC 0 has the name web already"),
        ("0:modify,mode=bridged", Denied, "come from the network"),
        ("0:modify,network=none", Denied, "addresses belong to a network"),
        ("0:modify,mac=aa:00:00:00:00:01", Denied, "already used by a NIC"),
        ("0:modify,network=net2", AddressReserved, "192.0.2.6 of network net2"),
        ("1:modify,network=net2", AddressInUse, "192.0.2.5 is already used"),
    ],
)
def test_what_is_refused(option: str, error: type[Refusal], message: str) -> None:
    """Each refusal tells what is there instead."""
    with pytest.raises(error, match=message):
        ips(option)


def test_refusals_of_options_quote_them() -> None:
    """Of many options the message names the wrong one."""
    with pytest.raises(Denied, match=r'^--net "1:modify,ip7=pool": the NIC has 1 address'):
        after("0:modify,ip0=pool", "1:modify,ip7=pool")


def test_an_address_is_not_free_before_the_change_is_made() -> None:
    """What one NIC gives up another one does not get in the same operation, nor the NIC itself again."""
    for options in (
        ("0:modify,ip0=none", "1:modify,ip0=192.0.2.4"),
        ("0:remove", "-1:add,ip0=192.0.2.4,network=net1"),
        ("0:modify,ip0=none", "0:modify,ip2=192.0.2.4"),
        ("0:modify,ip0=192.0.2.9", "0:modify,ip0=192.0.2.4"),
    ):
        with pytest.raises(Denied, match="already"):
            nics = NICS
            changed = after(*options)
            keyed = [item if item.key else replaced_key(item, 7) for item in changed]
            addresses_now(keyed, ledgers(nics).__getitem__)


def test_a_renewed_address_is_another_one() -> None:
    """`pool` on a NIC that has the lowest address gives the next one, and the old one is free afterwards."""
    nics = (nic(0, "192.0.2.12"),)
    assert ips("0:ip=pool", nics=nics) == [["192.0.2.13"]]
    (changed,) = after("0:ip=pool", nics=nics)
    assert (changed.ips, changed.release) == (("pool",), ("192.0.2.12",))
    assert ips("0:ip0=192.0.2.9,ip1=pool", nics=nics) == [["192.0.2.9", "192.0.2.13"]]


def test_options_are_applied_in_order() -> None:
    """Each option sees the NICs as those before it left them."""
    found = after("-1:add,name=new", "0:remove", "new:modify,name=db", "0:add,name=first", "remove")
    assert [item.name for item in found] == ["first", ""]
    assert [item.key for item in found] == ["", "default/inst1-1"]
    assert after("0:remove", "0:remove") == ()


def test_explicit_addresses_come_first_over_all_nics() -> None:
    """A NIC that is added does not get automatically what another one asks for."""
    found = ips("1:modify,ip1=pool", "-1:add,ip=192.0.2.12,network=net1")
    assert found[1:] == [["192.0.2.5", "192.0.2.13"], ["192.0.2.12"]]


def test_another_network() -> None:
    """On another cable kept addresses must be valid and free, and the MAC address gets that network's prefix."""
    alone = (nic(0, "192.0.2.4"),)
    (moved,) = after("0:modify,network=net2", nics=alone)
    assert (moved.network, moved.ips, moved.held, moved.release) == ("other", ("192.0.2.4",), (), ())
    assert moved.mac.startswith("aa:bb:cc:")
    assert ips("0:modify,network=net2", nics=alone) == [["192.0.2.4"]]
    assert ips(f"0:modify,network={NET2.uuid},ip=pool6", nics=alone) == [["2001:db8::2"]]
    assert after("0:modify,network=net2,mac=aa:00:00:00:00:00", nics=alone)[0].mac == alone[0].mac
    assert ips("0:network=net2,ip2=none", force=True)[0] == ["192.0.2.4", "192.0.2.6"]
    assert ips("0:network=net2,ip0=192.0.2.7,ip1=none,ip2=none")[0] == ["192.0.2.7"]
    with pytest.raises(OutsideSubnets):
        ips("0:modify,network=net2", nics=(nic(0, "192.0.2.200"),))
    with pytest.raises(Malformed, match="is requested twice"):
        ips("0:network=net2,ip0=192.0.2.7,ip1=none")


def test_without_a_network() -> None:
    """A NIC may lose its network with all of its addresses, and then has its own mode and link; and the way back."""
    (_, free) = after("1:modify,network=none,ip=none,mode=routed,link=tap0")
    assert (free.network, free.ips, free.mode, free.link) == ("", (), "routed", "tap0")
    loose = (WantedNic(key="default/inst1-0", mode="bridged", link="br0", mac="aa:00:00:00:00:00"),)
    (plugged,) = after("0:network=net1,ip=pool", nics=loose)
    assert (plugged.network, plugged.mode, plugged.link, plugged.mac) == ("net1", "", "", loose[0].mac)
    with pytest.raises(Denied, match="addresses belong to a network"):
        after("0:ip=pool", nics=loose)


def test_what_changes_nothing() -> None:
    """What a NIC is already needs no force and writes nothing, not even force."""
    reserved = (nic(0, "192.0.2.100"),)
    for options in (["0:ip=192.0.2.100"], ["0:name=none"], ["0:mac=aa:00:00:00:00:00", "0:network=net1"]):
        assert after(*options, nics=reserved) == after(*options, nics=reserved, force=True) == reserved
    assert ips("0:ip0=192.0.2.100,ip1=pool", nics=reserved) == [["192.0.2.100", "192.0.2.12"]]


def test_a_nic_that_waits_for_addresses() -> None:
    """Of a NIC that did not get what it asks for, its requests are changed; to insist is a change of its own."""
    waiting = (
        WantedNic(
            key="default/inst1-0", network="net1", ips=("pool", "192.0.2.100"), mac="aa:00:00:00:00:00"
        ),
    )
    assert not has_its_addresses(waiting[0])
    with pytest.raises(AddressReserved):
        ips("0:ip1=192.0.2.100", nics=waiting)
    assert ips("0:ip1=192.0.2.100", nics=waiting, force=True) == [["192.0.2.12", "192.0.2.100"]]
    assert ips("0:ip1=none", nics=waiting) == [["192.0.2.12"]]


def test_mac_addresses() -> None:
    """New ones have the network's prefix and are not in use, also where few are left."""
    found = after("-1:add,network=net2", "-1:add,network=net1", "-1:add,mac=AA:00:00:00:00:09")
    assert found[2].mac.startswith("aa:bb:cc:")
    assert found[3].mac.startswith("aa:00:00:")
    assert found[4].mac == "aa:00:00:00:00:09"
    assert after("0:mac=auto")[0].mac != NICS[0].mac
    taken = {f"aa:bb:cc:{tail >> 16:02x}:{tail >> 8 & 255:02x}:{tail & 255:02x}" for tail in range(300)}
    macs = Macs(taken, Random(7))
    made = [macs.generate("AA:BB:CC") for _ in range(50)]
    assert len({*made, *taken}) == 350
    assert all(parse_mac(mac) == mac for mac in made)
    with pytest.raises(Denied):
        macs.take(made[0])


def test_there_is_a_limit() -> None:
    """An instance has 64 NICs at most."""
    with pytest.raises(Denied, match="64 NICs at most"):
        after(*["-1:add"] * 63)


_entry = st.sampled_from(
    ["pool", "p", "none", *(f"192.0.2.{number}" for number in (4, 5, 6, 7, 12, 13, 50, 100))]
)


@settings(max_examples=examples(150), deadline=None)
@given(st.dictionaries(st.integers(0, 5), _entry, min_size=1, max_size=4))
def test_as_the_naive_reading(wanted: dict[int, str]) -> None:
    """One change does what its plainest reading says, or nothing: sets, appends, then removals; then addresses."""
    option = "0:modify," + ",".join(f"ip{index}={entry}" for index, entry in wanted.items())
    try:
        found = ips(option)
    except Refusal:
        assert _naive(wanted) is None
        return
    assert found == [_naive(wanted), UNTOUCHED]


def _naive(wanted: dict[int, str]) -> list[str] | None:
    before = list(NICS[0].ips)
    entries = list(before)
    for index in sorted(wanted):
        if index > len(entries) or (index >= len(before) and wanted[index] == "none"):
            return None
        new = wanted[index]
        if new in before and (index >= len(before) or before[index] != new):
            return None
        entries[index : index + 1] = [new]
    entries = [entry for entry in entries if entry != "none"]
    explicit = [entry for entry in entries if entry[0] == "1"]
    if len(set(explicit)) < len(explicit) or {"192.0.2.5", "192.0.2.50", "192.0.2.100"} & set(explicit):
        return None
    free = iter(f"192.0.2.{number}" for number in range(12, 21) if f"192.0.2.{number}" not in explicit)
    return [entry if entry[0] == "1" else next(free) for entry in entries]
