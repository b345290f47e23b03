"""The warnings of an edit before it is stored."""

import pytest

from lanloom.api.liveupdate import Policy
from lanloom.api.meta import Key
from lanloom.features.liveupdate.rules.admit import changed_networks, edit_warnings
from lanloom.features.liveupdate.rules.mode import Mode
from lanloom.features.liveupdate.rules.preflight import Findings
from tests.features.liveupdate import objects
from tests.features.liveupdate.objects import PLACE, as_instance, as_machine, on

COMPANION = Mode("companion", "KubeVirt v1.9.0", "kubevirt/kubevirt")
EVICTS = Mode("companion", "KubeVirt v1.9.0", "kubevirt/kubevirt", evicts=True)


BOTH, MIGRATION, IN_PLACE = (
    Findings(both=("no such NAD",)),
    Findings(migration=("no other node",)),
    Findings(in_place=("no bridge here",)),
)
FULL = Mode("full", "no KubeVirt")


@pytest.mark.parametrize(
    ("mode", "migratable", "policy", "found", "words"),
    [
        (COMPANION, True, "migrate", Findings(), ()),
        (COMPANION, True, "migrate", BOTH, ("blue can't change: no such NAD",)),
        (COMPANION, True, "in-place", MIGRATION, ("no other node",)),
        (COMPANION, True, "in-place", IN_PLACE, ()),
        (COMPANION, False, "migrate", MIGRATION, ("can't migrate, so this edit moves none",)),
        (COMPANION, False, "migrate", BOTH, ("no such NAD", "can't migrate, so this edit moves none")),
        (EVICTS, True, "migrate", Findings(), ()),
        (EVICTS, False, "migrate", Findings(), ("--policy in-place", "may be shut down within seconds")),
        (FULL, False, "migrate", MIGRATION, ("no other node",)),
        (FULL, False, "in-place", MIGRATION, ()),
        (FULL, False, "in-place", IN_PLACE, ("no bridge here",)),
        (FULL, True, "prefer-in-place", IN_PLACE, ()),
        (FULL, True, "prefer-in-place", MIGRATION, ()),
        (FULL, True, "prefer-in-place", Findings(migration=("a",), in_place=("b",)), ("can't change: a",)),
        (FULL, True, None, BOTH, ("no such NAD",)),
        (Mode("restart", "KubeVirt v1.7.0"), False, "migrate", BOTH, ("no such NAD",)),
    ],
)
def test_warnings(
    mode: Mode, migratable: bool, policy: Policy | None, found: Findings, words: tuple[str, ...]
) -> None:
    """Each danger of an edit is one warning, of the way that the edit takes; an edit without danger has none."""
    conditions = [objects.MIGRATABLE] if migratable else []
    machine = as_instance(objects.instance(on({"blue": "old"}), conditions=conditions))
    warnings = tuple(edit_warnings("VirtualMachine vms/vm", machine, mode, policy, {"blue": found}))
    assert len(warnings) == len(words)
    assert all(word in text for word, text in zip(words, warnings, strict=True))


def test_changed_networks() -> None:
    """Only networks that were there before and have another NAD count; a spelling of the same NAD is none."""
    old, new = on({"blue": "old", "red": "x"}), on({"blue": "vms/old", "red": "new", "more": "new"})
    found = changed_networks(as_machine(objects.machine(new)), as_machine(objects.machine(old)), PLACE)
    assert found == {"red": Key(PLACE, "new")}
