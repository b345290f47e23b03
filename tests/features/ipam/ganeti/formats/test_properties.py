"""What must hold of upgrade, downgrade and verify for whatever networks and NICs a cluster has."""

from collections.abc import Callable
from ipaddress import IPv4Network

from hypothesis import given, settings
from hypothesis import strategies as st

from lanloom.features.ipam.ganeti.formats.config import config_of, network_meant
from lanloom.features.ipam.ganeti.formats.conversion import downgrade_config, upgrade_config
from lanloom.features.ipam.ganeti.formats.text import decode
from lanloom.features.ipam.ganeti.formats.verify import verify_config
from lanloom.features.ipam.rules.ledger import Ledger
from tests.features.ipam.ganeti.formats.clusters import (
    Json,
    config,
    haskell_text,
    instance,
    network,
    nic,
    python_text,
)
from tests.harness.examples import examples

TEXTS = st.sampled_from([python_text, haskell_text])


@st.composite
def networks(draw: st.DrawFn, number: int) -> tuple[Json, list[int]]:
    """A network of the old form and the places in it that NICs have."""
    length = draw(st.integers(24, 30))
    size = 1 << (32 - length)
    places = st.lists(st.integers(0, size - 1), unique=True, max_size=6)
    used = draw(places)
    more = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "network6": st.just(f"2001:db8:{number}::/64"),
                "tags": st.lists(st.sampled_from(["a", "b", "c"]), unique=True),
                "mac_prefix": st.just("aa:00:01"),
                "something": st.one_of(st.none(), st.integers(), st.text(), st.lists(st.booleans())),
            },
        )
    )
    if "network6" in more and draw(st.booleans()):
        more["gateway6"] = f"2001:db8:{number}::1"
    gateway = draw(st.none() | st.integers(1, size - 2))
    item = network(
        f"net{number}",
        f"192.0.{number}.0/{length}",
        used=used,
        gateway=gateway,
        external=draw(places),
        **more,
    )
    return {key: item[key] for key in draw(st.permutations(list(item)))}, used


@st.composite
def clusters(draw: st.DrawFn) -> Json:
    """A cluster whose reservations are right."""
    found = [draw(networks(number)) for number in range(draw(st.integers(0, 3)))]
    numbers = iter(range(1000))
    nics = [
        nic(next(numbers), str(IPv4Network(item["network"])[place]), item["uuid"])
        for item, used in found
        for place in used
    ]
    nics += [
        nic(next(numbers), address)
        for address in draw(st.lists(st.sampled_from([None, "198.51.100.1"]), max_size=2))
    ]
    count = draw(st.integers(1, 3))
    machines = [instance(f"inst{number}", nics[number::count]) for number in range(count)]
    return config([item for item, _ in found], machines)


@given(clusters(), TEXTS)
@settings(max_examples=examples(60), deadline=None)
def test_there_and_back(cluster: Json, write: Callable[[Json], str]) -> None:
    """An upgrade happens once, corrects nothing that is right, and a downgrade gives back the very bytes of before."""
    before = write(cluster)
    up = upgrade_config(before)
    assert upgrade_config(up.text).text == up.text
    assert up.notes == ()
    assert downgrade_config(up.text).text == before
    assert downgrade_config(before).text == before
    assert verify_config(before) == verify_config(up.text)


@given(clusters(), TEXTS)
@settings(max_examples=examples(40), deadline=None)
def test_one_meaning(cluster: Json, write: Callable[[Json], str]) -> None:
    """Both forms of a file mean the same networks and NICs."""
    before = write(cluster)
    old, new = config_of(decode(before)), config_of(decode(upgrade_config(before).text))
    assert new.nics == old.nics
    assert [network_meant(item, new) for item in new.networks.values()] == [
        network_meant(item, old) for item in old.networks.values()
    ]


@given(clusters())
@settings(max_examples=examples(60), deadline=None)
def test_as_ganeti_counts(cluster: Json) -> None:
    """An upgraded network has Ganeti's map, and so its counts, where Ganeti reserved edges and gateway."""
    upgraded = config_of(decode(upgrade_config(python_text(cluster)).text))
    for raw in cluster["networks"].values():
        stored = upgraded.networks[raw["uuid"]]
        meant = network_meant(stored, upgraded)
        ledger = Ledger(meant, {str(nic): [address] for address, nic in upgraded.owners(stored.uuid)})
        found = "".join(
            "X" if ledger.owner_of(address) or ledger.is_reserved(address) else "."
            for address in range(meant.subnets[0].cidr.range.first, meant.subnets[0].cidr.range.last + 1)
        )
        assert found == ganeti_map(raw)
        usage = ledger.usage(meant.subnets[0].pools[0])
        assert (usage.free, usage.used + usage.reserved) == (found.count("."), found.count("X"))


@given(clusters(), st.data())
@settings(max_examples=examples(40), deadline=None)
def test_wrong_bits(cluster: Json, data: st.DataObject) -> None:
    """Each bit that no NIC stands for, or that a NIC lacks, is reported by verify, and corrected and reported by
    upgrade.
    """
    flipped = 0
    right = upgrade_config(python_text(cluster)).text
    for raw in cluster["networks"].values():
        size = len(raw["reservations"])
        places = data.draw(st.lists(st.integers(0, size - 1), unique=True, max_size=4))
        bits = list(raw["reservations"])
        for place in places:
            bits[place] = "1" if bits[place] == "0" else "0"
        raw["reservations"] = "".join(bits)
        flipped += len(places)
    text = python_text(cluster)
    change = upgrade_config(text)
    assert change.text == right
    assert len(change.notes) == flipped
    assert sum("reserved" in line for line in verify_config(text)) >= flipped


def ganeti_map(raw: Json) -> str:
    """What Ganeti shows of a network: either string's bits, X for one and a dot for none."""
    pairs = zip(raw["reservations"], raw["ext_reservations"], strict=True)
    return "".join("X" if "1" in pair else "." for pair in pairs)
