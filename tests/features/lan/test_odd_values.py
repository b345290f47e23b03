"""Values that no LAN should have, in each field: refused with the field's name, or of no harm to a node."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from lanloom.api.lan import LAN, LANS, HostBridge, LANSpec, SpokeOptions, VlanUplink
from lanloom.features.lan.rules.desired import desired, endpoint
from lanloom.features.lan.rules.flood import Peers
from lanloom.features.lan.rules.observed import Underlay
from lanloom.features.lan.rules.plan import plan
from lanloom.features.lan.rules.record import SpokeRecord, record_of
from lanloom.kube.patches import merge
from tests.fakes.lankernel import FakeLanKernel
from tests.fakes.lanworld import LanWorld
from tests.features.lan.reviews import MANAGER, Reviews, review_lan, reviewed

Raw = dict[str, Any]

UID = "5e1f4a0c-0000-4000-8000-0000000000aa"

ODD: tuple[Any, ...] = (
    *(None, "", " ", 0, -1, 1, 1.5, True, 2**31, 2**63, 10**30, float(2**53)),
    *("x" * 5000, "ü", "a\0b", "\ud7ff🙂", "../x", "a b", "-", ".", "lo", "%d", "a\n", "1e3", "0x10"),
    *([], [None], ["a", "a"], [[]], ["ü"], {}, {"": ""}, {"a": None}, {"a": {}}, {"a": "x" * 5000}, [{}] * 3),
)


def _wire(struct: type[msgspec.Struct]) -> tuple[str, ...]:
    return struct.__struct_encode_fields__


def _changes() -> Iterator[tuple[str, Raw]]:
    for name in _wire(LANSpec):
        yield from ((name, {name: value}) for value in ODD)
    for outer, struct, beside in (
        ("hostBridge", HostBridge, {"name": "iso-br", "alias": "lanloom-dummy u"}),
        ("uplink", VlanUplink, {"clusterNetwork": "cluster-1", "vlan": 7}),
    ):
        for name in _wire(struct):
            yield from ((f"{outer}.{name}", {outer: beside | {name: value}}) for value in ODD)
    for name in _wire(SpokeOptions):
        yield from ((f"spokeOptions.a.{name}", {"spokeOptions": {"a": {name: value}}}) for value in ODD)


FIELDS = tuple(dict.fromkeys(name for name, _ in _changes()))


@pytest.mark.parametrize("field", FIELDS)
def test_odd_values(field: str) -> None:
    """Each odd value is refused in words that name the spec, or a node can build the LAN; on creation and later."""

    async def story(on: Reviews) -> None:
        await on.follow()
        there = review_lan()
        for name, change in _changes():
            if name != field:
                continue
            for old in (None, there):
                new = merge(review_lan(), {"spec": change})
                verdict = await on.ask(LANS, new, old, user=MANAGER, dry=True)
                if verdict.allowed:
                    await _build(msgspec.convert(_without_nulls(new), LAN))
                else:
                    assert "spec" in verdict.message and len(verdict.message) < 2000, (change, verdict)

    reviewed(story)()


def _without_nulls(value: Any) -> Any:
    """As everything of others is read."""
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    return value


async def _build(lan: LAN) -> None:
    """A node builds it for its first spoke, and then has nothing left to do."""
    record = record_of(replace(lan, metadata=replace(lan.metadata, uid=UID)), "n1")
    if lan.spec.spokes:
        record = record.with_place(
            SpokeRecord(spoke=lan.spec.spokes[0], mode="macvtap", index=9, allocated=1.0)
        )
    underlay = Underlay(name=record.device, index=2, mtu=1500, addresses=("10.0.0.1",))
    wanted = desired(record, endpoint(record, underlay), Peers(), "n1", 1.0)
    kernel = FakeLanKernel(LanWorld({record.device: underlay}))
    assert wanted.present == bool(lan.spec.spokes)
    await kernel.apply(wanted, plan(wanted, await kernel.observe(wanted)))
    assert plan(wanted, await kernel.observe(wanted)) == ()
