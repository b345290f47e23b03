"""What `docs/validation.md` says is refused of an update, is refused of an object that is being deleted."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from lanloom.api.admission import AdmissionRequest
from tests.features.dummy.admission import cases as dummy
from tests.features.dummy.admission.test_documentation import GROUPS as DUMMY_GROUPS
from tests.features.ipam.admission import cases as ipam
from tests.features.ipam.admission.test_documentation import GROUPS as IPAM_GROUPS
from tests.features.liveupdate import test_admission as liveupdate
from tests.features.vlan.admission import cases as vlan
from tests.features.vlan.admission.test_documentation import GROUPS as VLAN_GROUPS
from tests.runtime.test_webhooktable import leaving

Answer = Callable[[Any], str]
FEATURES: tuple[tuple[Any, Answer], ...] = (
    (DUMMY_GROUPS, dummy.answer),
    (IPAM_GROUPS, ipam.answer),
    (VLAN_GROUPS, vlan.answer),
)


SWAPS = {rule: case for rule, case in liveupdate.SWAP_CASES.items() if case.old is not None and case.new}
DOCUMENTED: dict[str, tuple[Any, Answer]] = {
    f"{title}: {rule}": (case, answer)
    for groups, answer in FEATURES
    for title, _, cases in groups
    for rule, case in cases.items()
    if case.asked.operation == "UPDATE"
}


def in_deletion(asked: AdmissionRequest) -> AdmissionRequest:
    """The same request while the object is being deleted."""
    assert asked.object is not None and asked.old_object is not None
    return replace(asked, object=leaving(asked.object), old_object=leaving(asked.old_object))


@pytest.mark.parametrize(("case", "answer"), DOCUMENTED.values(), ids=DOCUMENTED)
def test_a_documented_refusal_holds_in_deletion(case: Any, answer: Answer) -> None:
    """The message is the same to the letter."""
    assert answer(case._replace(asked=in_deletion(case.asked))) == case.message


@pytest.mark.parametrize("case", SWAPS.values(), ids=SWAPS)
def test_a_refused_change_of_a_swap_is_refused_in_deletion(case: liveupdate.Case) -> None:
    """A NetworkSwap that waits for its end asks for what it asked for."""
    old = leaving(case.old or {})
    assert liveupdate.answer(case._replace(old=old)) == case.message
