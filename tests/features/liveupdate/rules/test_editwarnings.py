"""What an owner is told of an edit before it is stored."""

import pytest

from lanloom.api.meta import Key
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.api.reading import convert
from lanloom.features.liveupdate.rules.editwarnings import changed_networks, edit_warnings
from lanloom.features.liveupdate.rules.mode import Mode
from tests.features.liveupdate import objects
from tests.features.liveupdate.objects import PLACE, as_instance, as_machine, on

NEW = Key(PLACE, "new")
COMPANION = Mode("companion", "KubeVirt v1.9.0", "kubevirt/kubevirt")
EVICTS = Mode("companion", "KubeVirt v1.9.0", "kubevirt/kubevirt", evicts=True)


@pytest.mark.parametrize(
    ("mode", "migratable", "there", "words"),
    [
        (COMPANION, True, True, ()),
        (COMPANION, True, False, ("does not exist; create it",)),
        (COMPANION, False, True, ("can't migrate, so this edit moves none",)),
        (EVICTS, True, True, ()),
        (EVICTS, False, True, ("--policy in-place", "may be shut down within seconds")),
        (Mode("full", "no KubeVirt"), False, True, ()),
        (Mode("restart", "KubeVirt v1.7.0"), False, False, ("does not exist",)),
    ],
)
def test_warnings(mode: Mode, migratable: bool, there: bool, words: tuple[str, ...]) -> None:
    """Each danger of an edit is one warning, with the remedy; an edit without danger has none."""
    conditions = [objects.MIGRATABLE] if migratable else []
    machine = as_instance(objects.instance(on({"blue": "old"}), conditions=conditions))
    nad = convert(objects.nad("new"), NetworkAttachmentDefinition) if there else None
    found = tuple(edit_warnings("VirtualMachine vms/vm", machine, mode, {"blue": NEW}, {NEW: nad}))
    assert len(found) == len(words)
    assert all(word in text for word, text in zip(words, found, strict=True))


def test_changed_networks() -> None:
    """Only networks that were there before and have another NAD count; a spelling of the same NAD is none."""
    old, new = on({"blue": "old", "red": "x"}), on({"blue": "vms/old", "red": "new", "more": "new"})
    found = changed_networks(as_machine(objects.machine(new)), as_machine(objects.machine(old)), PLACE)
    assert found == {"red": NEW}
