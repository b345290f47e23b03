"""The webhooks of a LAN's NADs: whose they are, who else may have their names, and when they go."""

import json
import re
from pathlib import Path

import pytest
import yaml

from lanloom.api.core import PODS
from lanloom.api.dummy import DRAINING
from lanloom.api.lan import LANS, UID_LABEL, resource_name
from lanloom.api.lannads import RESOURCE_NAME
from lanloom.api.multus import NADS
from lanloom.features.ipam.agent.cnitypes import parse_ipam
from lanloom.features.lan.agent.calls import ipam_type
from lanloom.features.lan.rules.nads import body_of, wanted_nads
from lanloom.kube.patches import merge
from tests.features.lan.manager.scene import PLACE
from tests.features.lan.reviews import MANAGER, Raw, Reviews, reviewed

ROOT = Path(__file__).parents[3]


@reviewed
async def test_a_nad_with_addresses(on: Reviews) -> None:
    """The documented NAD of a user, with `ipam` and the spoke's resource, is let in next to the LAN, and may go."""
    page = (ROOT / "docs/lan.md").read_text()
    (text,) = (block for block in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if '"ipam"' in block)
    example = yaml.safe_load(text)
    config = json.loads(example["spec"]["config"])
    await on.add_lan(spokes=[config["veth"]])
    await on.follow()
    assert example["metadata"]["annotations"] == {RESOURCE_NAME: resource_name(config["veth"], "veth")}
    nad = merge(example, {"metadata": {"namespace": PLACE}})
    assert (await on.ask(NADS, nad)).allowed
    assert (await on.ask(NADS, merge(nad, {"metadata": {"labels": {"a": "b"}}}), nad)).allowed
    assert (await on.ask(NADS, None, nad)).allowed
    assert ipam_type(config) == parse_ipam(config).type == "lanloom-ipam"


DAMAGE: list[tuple[Raw, str]] = [
    ({"spec": {"config": "{}"}}, "spec.config follows from LAN nets/blue"),
    ({"metadata": {"labels": None, "ownerReferences": None}}, "belongs to LAN nets/blue"),
    ({"metadata": {"labels": {UID_LABEL: "x"}}}, "belongs to LAN nets/blue"),
    ({"metadata": {"annotations": {"k8s.v1.cni.cncf.io/resourceName": "x"}}}, "written by Lanloom's manager"),
    ({"metadata": {"annotations": {DRAINING: "x"}}}, "written by Lanloom's manager"),
    ({"metadata": {"annotations": {"lanloom.io/guarded-for": None}}}, "written by Lanloom's manager"),
]


@pytest.mark.parametrize(("damage", "message"), DAMAGE)
@pytest.mark.parametrize("follows", [False, True])
def test_a_nad_is_the_managers(damage: Raw, message: str, follows: bool) -> None:
    """What a NAD of a LAN is made of is changed by managers only, whether the watch has brought the LAN or not."""

    async def story(on: Reviews) -> None:
        old = await on.add_nad(await on.add_lan())
        if follows:
            await on.follow()
        assert message in (await on.ask(NADS, merge(old, damage), old)).message
        assert (await on.ask(NADS, merge(old, damage), old, user=MANAGER)).allowed
        harmless = {"metadata": {"labels": {"team": "net"}, "annotations": {"note": "x"}}}
        assert (await on.ask(NADS, merge(old, harmless), old)).allowed

    reviewed(story)()


@reviewed
async def test_a_place_that_is_a_lans(on: Reviews) -> None:
    """A new NAD takes no name of a LAN's NAD unless it is the same, and names no LAN as its owner by itself."""
    lan = await on.add_lan()
    await on.follow()
    same = merge(body_of(lan, next(iter(wanted_nads(lan)))), {"metadata": {"namespace": PLACE}})
    assert (await on.ask(NADS, same)).allowed
    other = merge(same, {"metadata": {"labels": None, "ownerReferences": None}, "spec": {"config": "{}"}})
    assert "LAN nets/blue makes a NAD of that name here" in (await on.ask(NADS, other)).message
    elsewhere = merge(other, {"metadata": {"namespace": "vms"}})
    assert (await on.ask(NADS, elsewhere)).allowed
    stranger = merge(
        same, {"metadata": {"name": "mine", "labels": {UID_LABEL: "nobody"}, "ownerReferences": None}}
    )
    assert "names a LAN that does not exist" in (await on.ask(NADS, stranger)).message
    mine = merge(same, {"metadata": {"name": "mine"}})
    assert "names LAN nets/blue, which wants no such NAD" in (await on.ask(NADS, mine)).message
    assert (await on.ask(NADS, {"metadata": {"name": "web"}, "spec": {"config": "{}"}})).allowed


@reviewed
async def test_deletions_of_nads(on: Reviews) -> None:
    """A LAN's NAD is deleted by managers only, once it is closed; one without a LAN by any user, if it is unused."""
    lan = await on.add_lan()
    nad = await on.add_nad(lan)
    await on.add_pod()
    await on.follow()
    assert "it belongs to LAN nets/blue; take" in (await on.ask(NADS, None, nad)).message
    assert not (await on.ask(NADS, None, nad, user=MANAGER)).allowed
    closed = merge(nad, {"metadata": {"annotations": {DRAINING: "2026-01-01T00:00:00Z"}}})
    assert (await on.ask(NADS, None, closed, user=MANAGER)).allowed
    await on.client.delete(LANS, "blue", PLACE)
    assert "it is used by Pod vms/web" in (await on.ask(NADS, None, nad)).message
    await on.client.delete(PODS, "web", "vms", grace=0)
    assert (await on.ask(NADS, None, nad)).allowed


IPAM = {"type": "host-local", "subnet": "192.0.2.0/24"}


def ipam_nad(section: Raw, kind: str = "k8slanveth", resource: str = "") -> Raw:
    """A NAD with an IPAM program, for the spoke a of a LAN or for a macvtap of another project."""
    config = {"type": kind, "ipam": section} | ({"veth": "a"} if kind == "k8slanveth" else {})
    meta = {"name": "mine", "namespace": PLACE, "annotations": {RESOURCE_NAME: resource} if resource else {}}
    return {"metadata": meta, "spec": {"config": json.dumps(config)}}


@reviewed
async def test_a_nad_from_before(on: Reviews) -> None:
    """A stored NAD with a path can be changed in all else, with a warning; no further path comes into it."""
    await on.add_lan()
    await on.follow()
    old = ipam_nad({**IPAM, "dataDir": "/data"})
    labelled = merge(old, {"metadata": {"labels": {"a": "b"}}})
    assert (await on.ask(NADS, labelled, old)).allowed
    edited = await on.ask(NADS, ipam_nad({**IPAM, "dataDir": "/data", "gateway": "192.0.2.1"}), old)
    assert edited.allowed and "dataDir" in str(edited.warnings)
    assert (
        "resolvConf"
        in (await on.ask(NADS, ipam_nad({**IPAM, "dataDir": "/data", "resolvConf": "/x"}), old)).message
    )
    assert (await on.ask(NADS, ipam_nad(IPAM), old)).allowed


@reviewed
async def test_a_program_that_is_not_listed(on: Reviews) -> None:
    """An operator may have named it to the agents, so a warning says how."""
    await on.add_lan()
    await on.follow()
    verdict = await on.ask(NADS, ipam_nad({"type": "company-ipam", "server": "https://ipam.example"}))
    assert verdict.allowed and "--ipam-program=company-ipam" in str(verdict.warnings)


@pytest.mark.parametrize(
    ("resource", "allowed"),
    [("macvtap.network.kubevirt.io/eth0", True), (resource_name("a", "macvtap"), False)],
)
def test_a_macvtap(resource: str, allowed: bool) -> None:
    """A macvtap of another project is none of Lanloom's."""

    async def story(on: Reviews) -> None:
        await on.add_lan()
        await on.follow()
        nad = ipam_nad({**IPAM, "dataDir": "/data"}, "macvtap", resource)
        assert (await on.ask(NADS, nad)).allowed == allowed

    reviewed(story)()
