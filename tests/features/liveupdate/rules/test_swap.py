"""The phases of a swap as rules on values: what is decided of everything that is known."""

from typing import Any

import pytest
from msgspec import convert
from msgspec.structs import replace

from lanloom.api.kubevirt import VirtualMachineInstance
from lanloom.api.liveupdate import FLAPPED, NetworkSwap
from lanloom.api.meta import Condition, Key, rfc3339
from lanloom.features.liveupdate.rules.holds import release_wait
from lanloom.features.liveupdate.rules.phases import Decision, SwapInputs
from lanloom.features.liveupdate.rules.swap import decide
from tests.features.liveupdate.objects import PLACE, as_instance, instance, on

Raw = dict[str, Any]
Outcome = tuple[str, tuple[str, ...], bool]
Case = tuple[tuple[str, float], Raw, Outcome]

NOW = 1_800_000_000.0
OLD, NEW, OTHER = (Key(PLACE, name) for name in ("old", "new", "other"))


def machine(uid: str = "u1", phase: str = "Running") -> VirtualMachineInstance:
    """An instance."""
    raw = instance(on({"blue": "old"}), phase=phase)
    raw["metadata"] |= {"uid": uid}
    return as_instance(raw)


def swap(phase: str, age: float, port: str = "vms/new", *, deleted: bool = False, **spec: Any) -> NetworkSwap:
    """A swap of the NIC `blue` that has been in a phase for so many seconds."""
    wanted = {"machine": "vm", "uid": "u1", "network": "blue", "from": "vms/old", "to": "vms/new"}
    meta: Raw = {"name": "s", "namespace": PLACE, "uid": "s1"}
    meta |= {"deletionTimestamp": rfc3339(NOW)} if deleted else {}
    status = {
        "phase": phase,
        "phaseSince": rfc3339(NOW - age),
        "node": "node1",
        "pod": "virt-launcher",
        "podUid": "p1",
        "port": {"node": "node1", "phase": phase, "nad": port, "link": "veth1"},
    }
    body = {"metadata": meta, "spec": wanted | {"record": True} | spec, "status": status}
    return convert(body, NetworkSwap)


def outcome(decision: Decision) -> Outcome:
    """The phase, the steps, and whether it is looked at again."""
    return str(decision.status.phase), decision.steps, decision.wait is not None


MIGRATED: dict[str, Case] = {
    # Its pod is gone: the machine migrated, or was restarted, while a swap was under way.
    "the instance names it": (("Recording", 1), {"asked": NEW}, ("Succeeded", (), False)),
    "the instance is to follow": (("Recording", 1), {"asked": OLD}, ("Recording", (), True)),
    "just before the end of the wait": (("Recording", 19), {"asked": OLD}, ("Recording", (), True)),
    "the instance does not follow": (("Recording", 20), {"asked": OLD}, ("Reverting", (), True)),
    "it goes back with its machine": (
        ("Reverting", 1),
        {"asked": OLD},
        ("Reverting", ("machine-back",), True),
    ),
    "the instance is to follow back": (
        ("Reverting", 299),
        {"asked": NEW, "named": OLD},
        ("Reverting", (), True),
    ),
    "the instance does not follow back": (
        ("Reverting", 300),
        {"asked": NEW, "named": OLD},
        ("Reverted", (), False),
    ),
    "the instance has followed back": (
        ("Reverting", 1),
        {"asked": OLD, "named": OLD},
        ("Reverted", (), False),
    ),
    "nothing was edited yet": (("Moving", 1), {"asked": OLD, "named": OLD}, ("Reverted", (), False)),
    "the machine names a third network": (
        ("Recording", 20),
        {"asked": OLD, "named": OTHER},
        ("Reverted", (), False),
    ),
    "a third network is to be followed": (
        ("Recording", 19),
        {"asked": OLD, "named": OTHER},
        ("Recording", (), True),
    ),
    "the machine lacks the network": (
        ("Recording", 1),
        {"asked": OLD, "named": None},
        ("Reverted", (), False),
    ),
    "without KubeVirt": (("Recording", 1), {"asked": OLD, "with_kubevirt": False}, ("Succeeded", (), False)),
    "another instance": (
        ("Recording", 1),
        {"asked": OLD, "machine": machine("u2")},
        ("Succeeded", (), False),
    ),
    "an instance that has ended": (
        ("Recording", 1),
        {"asked": OLD, "machine": machine(phase="Failed")},
        ("Succeeded", (), False),
    ),
    "no instance": (("Recording", 1), {"asked": None, "machine": None}, ("Succeeded", (), False)),
    "until the restart, which is now": (
        ("UntilRestart", 9000),
        {"asked": NEW, "machine": machine("u2")},
        ("Succeeded", (), False),
    ),
    "until the restart, after a migration": (
        ("UntilRestart", 9000),
        {"asked": OLD},
        ("Reverting", (), True),
    ),
}


@pytest.mark.parametrize("case", MIGRATED.values(), ids=MIGRATED)
def test_a_pod_that_is_gone(case: Case) -> None:
    """A swap whose pod is gone ends when the instance names what its machine names, and not before."""
    (phase, age), known, expected = case
    facts: Raw = {"machine": machine(), "with_kubevirt": True, "named": NEW, "pod_uid": "p2"} | known
    decision = decide(SwapInputs(swap=swap(phase, age), now=NOW, **facts))
    assert outcome(decision) == expected


@pytest.mark.parametrize("named", [NEW, OLD, None])
@pytest.mark.parametrize("phase", ["Syncing", "Moving", "Recording", "UntilRestart", "Reverting"])
def test_a_nic_that_is_unplugged(phase: str, named: Key | None) -> None:
    """A swap ends when the instance has no such network any more, and edits nothing for it."""
    without = as_instance(instance(on({"red": "old"})) | {"metadata": {"name": "vm", "uid": "u1"}})
    facts: Raw = {"machine": without, "with_kubevirt": True, "named": named, "pod_uid": "p1"}
    decision = decide(SwapInputs(swap=swap(phase, 1), now=NOW, **facts))
    assert outcome(decision) == ("Reverted", (), False)
    assert "the NIC blue was unplugged" in decision.status.message


@pytest.mark.parametrize("age", [0, 5, 19])
def test_an_edit_for_which_no_pod_waits(age: float) -> None:
    """A swap that does not edit the machine leaves the machine's edit alone when the instance does not follow."""
    facts: Raw = {"machine": machine(), "with_kubevirt": True, "named": NEW, "asked": OLD, "pod_uid": "p2"}
    waits = decide(SwapInputs(swap=swap("Recording", age, record=False), now=NOW, **facts))
    assert outcome(waits) == ("Recording", (), True)
    ended = decide(SwapInputs(swap=swap("Recording", 20, record=False), now=NOW, **facts))
    assert outcome(ended) == ("Reverted", (), False)


HERE: Raw = {"machine": machine(), "pod_uid": "p1", "with_kubevirt": True, "held": True, "attached": OLD}

NOT_FOLLOWED: dict[str, Case] = {
    "the edit first": (("Syncing", 1), {"named": OLD, "asked": OLD}, ("Syncing", ("machine",), True)),
    "it may follow": (("Syncing", 1), {"named": NEW, "asked": OLD}, ("Syncing", (), True)),
    "it follows": (("Syncing", 1), {"named": NEW, "asked": NEW}, ("Moving", (), True)),
    "it did not in time": (("Syncing", 20), {"named": NEW, "asked": OLD}, ("Moving", (), True)),
    "KubeVirt asks for a restart": (
        ("Syncing", 1),
        {"named": NEW, "asked": OLD, "restart_due": True},
        ("Moving", (), True),
    ),
    "moved": (
        ("Recording", 1),
        {"named": NEW, "asked": OLD, "restart_due": True},
        ("UntilRestart", (), True),
    ),
    "moved, and it may follow": (("Recording", 1), {"named": NEW, "asked": OLD}, ("Recording", (), True)),
    "moved, and it follows": (("Recording", 1), {"named": NEW, "asked": NEW}, ("Recording", ("pod",), True)),
    "it lasts": (("UntilRestart", 9000), {"named": NEW, "asked": OLD}, ("UntilRestart", (), True)),
    "it follows at last": (("UntilRestart", 9000), {"named": NEW, "asked": NEW}, ("Recording", (), True)),
    "KubeVirt is removed": (
        ("UntilRestart", 9000),
        {"named": NEW, "asked": OLD, "with_kubevirt": False},
        ("Recording", (), True),
    ),
    "the edit is taken back": (("UntilRestart", 9000), {"named": OLD, "asked": OLD}, ("Reverting", (), True)),
    "a migration begins": (
        ("UntilRestart", 9000),
        {"named": NEW, "asked": OLD, "migrating": "m"},
        ("Reverting", (), True),
    ),
}


@pytest.mark.parametrize("case", NOT_FOLLOWED.values(), ids=NOT_FOLLOWED)
def test_an_instance_that_may_not_follow(case: Case) -> None:
    """With untilRestart, a port moves also if the instance does not follow, and the pod is written only if it does."""
    (phase, age), known, expected = case
    port = "vms/old" if phase == "Syncing" else "vms/new"
    found = swap(phase, age, port, untilRestart=True)
    assert outcome(decide(SwapInputs(swap=found, now=NOW, **HERE | known))) == expected


@pytest.mark.parametrize(("phase", "age"), [("Syncing", 20), ("Recording", 20)])
def test_an_instance_that_has_to_follow(phase: str, age: float) -> None:
    """Without untilRestart, a swap turns back for an instance that does not follow, and names the way."""
    facts: Raw = HERE | {"named": NEW, "asked": OLD, "restart_due": True}
    decision = decide(SwapInputs(swap=swap(phase, age), now=NOW, **facts))
    assert outcome(decision) == ("Reverting", (), True)
    assert "--until-restart (spec.untilRestart)" in decision.status.message


@pytest.mark.parametrize(
    ("found", "facts"),
    [
        (swap("Pending", 0, deleted=True), {}),
        (swap("Pending", 0, uid="u2"), {}),
        (swap("Pending", 0, to="vms/old"), {}),
        (swap("Recording", 0), {"pod_uid": "p2", "asked": NEW}),
        (swap("Syncing", 20, "vms/old"), {}),
        (swap("Moving", 31, ""), {}),
        (swap("Reverting", 301, ""), {}),
    ],
    ids=["deleted", "another", "nowhere", "restarted", "not followed", "late", "failed"],
)
def test_events(found: NetworkSwap, facts: Raw) -> None:
    """An Event names the instance once, whatever its text begins with."""
    title = "VirtualMachineInstance vms/vm"
    for event in decide(
        SwapInputs(swap=found, now=NOW, **HERE | {"named": NEW, "asked": OLD} | facts)
    ).events:
        assert event.message.startswith(title)
        assert event.message.count(title) == 1


def test_a_swap_until_the_restart_is_deleted() -> None:
    """Its deletion puts the NIC back on its former network."""
    facts: Raw = HERE | {"named": NEW, "asked": OLD}
    found = swap("UntilRestart", 9000, deleted=True, untilRestart=True)
    assert outcome(decide(SwapInputs(swap=found, now=NOW, **facts))) == ("Reverting", (), True)


@pytest.mark.parametrize("phase", ["Pending", "Syncing", "Moving", "Recording", "Reverting", "UntilRestart"])
def test_a_clock_that_was_set_back(phase: str) -> None:
    """The time of a phase that begins only later by the clock begins again, so that it ends."""
    facts: Raw = HERE | {"named": NEW, "asked": OLD}
    again = decide(SwapInputs(swap=swap(phase, -3600), now=NOW, **facts))
    assert (again.status.phase, again.status.phase_since, again.wait) == (phase, rfc3339(NOW), 0.0)
    near = decide(SwapInputs(swap=swap(phase, -5), now=NOW, **facts))
    assert outcome(near) == outcome(decide(SwapInputs(swap=swap(phase, 0), now=NOW, **facts)))


@pytest.mark.parametrize(("age", "state"), [(1, "Down"), (10, "Up"), (-3600, "Up")])
def test_a_flap_ends(age: float, state: str) -> None:
    """The guest's link comes up again after ten seconds, and at once when the clock was set back meanwhile."""
    flap = Condition(
        type=FLAPPED, status="False", reason="DownFromUp", last_transition_time=rfc3339(NOW - age)
    )
    found = swap("Recording", 1)
    found = replace(found, status=replace(found.status, conditions=(flap,)))
    facts: Raw = HERE | {"named": NEW, "asked": NEW, "attached": NEW, "link": "down"}
    (after,) = decide(SwapInputs(swap=found, now=NOW, **facts)).status.conditions
    assert after.reason == f"{state}FromUp"


@pytest.mark.parametrize(("age", "wait"), [(0, 5.0), (4, 1.0), (5, 0.0), (-3600, 0.0)])
def test_a_machine_is_let_go(age: float, wait: float) -> None:
    """A machine is left to KubeVirt five seconds after a swap, and at once when the clock was set back meanwhile."""
    found = swap("Succeeded", 0)
    found = replace(found, status=replace(found.status, completed_at=rfc3339(NOW - age)))
    assert release_wait(found, machine(), None, NOW) == wait
