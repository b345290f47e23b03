"""LANs and NADs that come so soon after each other that no watch has brought the first."""

import pytest

from lanloom.api.lan import LANS
from lanloom.api.multus import NADS
from tests.features.lan.manager.scene import PLACE
from tests.features.lan.reviews import Raw, Reviews, review_lan, reviewed
from tests.features.lan.test_namespaces import ELSEWHERE, VETH, nad

PAIRS: dict[str, tuple[Raw, Raw, str]] = {
    "one network namespace": (review_lan(), review_lan("red", vni=9, spokes=["z"]), "spec.ns"),
    "one VNI": (review_lan(), review_lan("red", ns="z", spokes=["z"]), "spec.vni"),
    "one spoke": (review_lan(), review_lan("red", ns="z", vni=9), "spec.spokes"),
    "a spoke of a LAN of others": (review_lan(), nad(VETH), "the spoke a is of a LAN of another namespace"),
    "the name of a NAD of the LAN": (
        review_lan(),
        nad({"type": "bridge"}, name="k8slan-veth-a", namespace=PLACE),
        "LAN nets/blue makes a NAD of that name here",
    ),
    "a larger MTU than the LAN's": (
        review_lan(mtu=1400),
        nad({**VETH, "mtu": 1500}, namespace=PLACE),
        "spec.config.mtu is 1500",
    ),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_what_was_allowed_a_moment_ago_counts(pair: str) -> None:
    """A second object that a LAN excludes is refused, although nothing has stored the LAN; not after a dry run."""
    first, second, message = PAIRS[pair]
    kind = NADS if "config" in second["spec"] else LANS

    async def story(on: Reviews) -> None:
        await on.follow()
        assert (await on.ask(kind, second, dry=True)).allowed
        assert (await on.ask(LANS, first, dry=True)).allowed
        assert (await on.ask(kind, second, dry=True)).allowed
        assert (await on.ask(LANS, first)).allowed
        assert message in (await on.ask(kind, second)).message

    reviewed(story)()


@pytest.mark.parametrize("narrower", [True, False])
def test_a_changed_lan_counts_as_it_was_and_as_it_is_to_be(narrower: bool) -> None:
    """While a LAN's namespaces change, a NAD is let in where both the old and the new ones admit it."""

    async def story(on: Reviews) -> None:
        await on.add_lan(namespaces=[ELSEWHERE] if narrower else [])
        await on.follow()
        (stored,) = on.informers.lans.store.items()
        new = review_lan(namespaces=[] if narrower else [ELSEWHERE])
        new["metadata"] |= {"uid": stored.metadata.uid, "resourceVersion": stored.metadata.resource_version}
        old = {**new, "spec": {**new["spec"], "namespaces": list(stored.spec.namespaces)}}
        assert (await on.ask(NADS, nad(VETH))).allowed == narrower
        assert (await on.ask(LANS, new, old)).allowed
        assert not (await on.ask(NADS, nad(VETH))).allowed

    reviewed(story)()
