"""Deletion is no way around a rule: what webhooks see of objects that are being deleted, by the real table's rows."""

import asyncio
import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanloom.api.admission import AdmissionRequest, Verdict, refusal
from lanloom.api.names import NODE_USER_PREFIX
from lanloom.features import FEATURES
from lanloom.refusals import Denied
from lanloom.runtime.feature import webhooks_of
from lanloom.runtime.identity import AGENTS, MANAGERS
from lanloom.runtime.webhooktable import TableAdmission, Webhook
from tests.harness.admission import ADMIN, request

Raw = dict[str, Any]
TABLE = webhooks_of(FEATURES)
UPDATES = [row for row in TABLE if "UPDATE" in row.operations]
DELETIONS = [row for row in TABLE if "DELETE" in row.operations]
AGENT = f"{NODE_USER_PREFIX}node1"
CONTROLLERS = (
    ADMIN,
    *MANAGERS,
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:serviceaccount:kube-system:namespace-controller",
    "system:kube-controller-manager",
)
WHY = "the rule of the row"


def title(row: Webhook) -> str:
    """A row, by which its tests are called."""
    return f"{row.verb}-{row.resource.plural}-{row.function.__qualname__.partition('.')[0]}"


def each(rows: list[Webhook]) -> pytest.MarkDecorator:
    """Run a test for each of these rows."""
    return pytest.mark.parametrize("row", rows, ids=title)


class Asked:
    """A table of one row, whose function notes what it is asked, and refuses it."""

    def __init__(self, row: Webhook) -> None:
        self._row = row
        self.seen: list[AdmissionRequest] = []

    def answer(self, asked: AdmissionRequest) -> Verdict:
        """The verdict of the table."""

        def mutate(_admission: TableAdmission, request: AdmissionRequest) -> Verdict:
            self.seen.append(request)
            return Verdict(patch=({"op": "add", "path": "/spec/filled", "value": "in"},))

        async def judge(_admission: TableAdmission, request: AdmissionRequest) -> tuple[str, ...]:
            self.seen.append(request)
            raise Denied(WHY)

        verb = self._row.verb
        table = TableAdmission([self._row._replace(function=mutate if verb == "mutate" else judge)])
        if verb == "mutate":
            return table.mutate(asked)
        return asyncio.run(table.validate(asked) if verb == "validate" else table.refer(asked))


def leaving(item: Raw, **meta: Any) -> Raw:
    """The object, being deleted."""
    found = {"finalizers": ["example.com/held", "example.com/other"], **item.get("metadata", {})}
    more = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0}
    return {**item, "metadata": {**found, **more, **meta}}


_KEYS = st.sampled_from(["spec", "status", "config", "vni", "a", "b", "finalizers", "deletionTimestamp"])
_VALUES = st.none() | st.booleans() | st.integers(-3, 9) | st.sampled_from(["", "x", "../x", "9999"])
_TREES = st.recursive(
    _VALUES,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=6,
)
_META = st.fixed_dictionaries(
    {"name": st.just("one")},
    optional={
        "labels": st.dictionaries(_KEYS, st.text(max_size=3), max_size=2),
        "annotations": st.dictionaries(_KEYS, st.text(max_size=3), max_size=2),
        "ownerReferences": st.lists(st.just({"uid": "u", "kind": "K", "name": "n"}), max_size=1),
    },
)
_OBJECTS: st.SearchStrategy[Raw] = st.fixed_dictionaries({"metadata": _META, "spec": _TREES})


@each(UPDATES)
@given(before=_OBJECTS, after=_OBJECTS, status=st.booleans(), user=st.sampled_from([*CONTROLLERS, AGENT]))
def test_an_edit_is_judged_as_if_nothing_was_deleted(
    row: Webhook, before: Raw, after: Raw, status: bool, user: str
) -> None:
    """For any edit of any kind: what its webhook sees of an object in deletion is what it sees of a living one."""
    if before == after:
        after = {**after, "spec": "something else"}
    alive, going = Asked(row), Asked(row)
    kept = {"finalizers": ["example.com/held", "example.com/other"]}
    living = [{**item, "metadata": {**item["metadata"], **kept}} for item in (after, before)]
    expected = alive.answer(request(row.resource, *living, user=user, status=status))
    edit = request(row.resource, leaving(after), leaving(before), user=user, status=status)
    assert going.answer(edit) == expected
    assert going.seen == alive.seen and alive.seen
    sly = request(row.resource, after, leaving(before), user=user, status=status)
    assert going.answer(sly) == expected


RELEASES: dict[str, Raw] = {
    "one of them": {"finalizers": ["example.com/other"]},
    "all of them": {"finalizers": []},
    "all, and no list is left": {"finalizers": None},
    "what the server writes": {"managedFields": [{"manager": "x"}], "resourceVersion": "8", "generation": 9},
    "nothing": {},
}
BODIES: dict[str, Raw] = {
    "readable": {"spec": {"a": 1}},
    "unreadable": {"spec": "none at all", "status": [1]},
    "bare": {},
}


@each(UPDATES)
@pytest.mark.parametrize("change", RELEASES.values(), ids=RELEASES)
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_what_lets_an_object_go_is_asked_of_nobody(row: Webhook, change: Raw, body: Raw) -> None:
    """Finalizers of an object in deletion go whatever stands in it and for any user; nothing is filled in."""
    old = leaving({"metadata": {"name": "one", "resourceVersion": "7"}, **body})
    new = copy.deepcopy(old)
    new["metadata"] |= change
    new["metadata"] = {key: value for key, value in new["metadata"].items() if value is not None}
    for user in CONTROLLERS:
        asked = Asked(row)
        assert asked.answer(request(row.resource, new, old, user=user)) == Verdict()
        assert not asked.seen


@each(UPDATES)
def test_only_finalizers_let_an_object_go(row: Webhook) -> None:
    """Whatever else changes with them is judged, in the status too; so are finalizers of a living object."""
    old = leaving({"metadata": {"name": "one", "labels": {"a": "b"}}, "spec": {"a": 1}})
    gone: Raw = {"finalizers": []}
    edits = [
        leaving({"metadata": {"name": "one", "labels": {"a": "b"}}, "spec": {"a": 2}}, **gone),
        leaving({"metadata": {"name": "one"}, "spec": {"a": 1}}, **gone),
        leaving(
            {"metadata": {"name": "one", "labels": {"a": "b"}, "annotations": {"x": ""}}, "spec": {"a": 1}}
        ),
        {**old, "status": {"x": 1}},
    ]
    for new in edits:
        asked = Asked(row)
        asked.answer(request(row.resource, new, old))
        assert asked.seen
    for new, status in ((old, True), (leaving(old, finalizers=[]), True)):
        asked = Asked(row)
        asked.answer(request(row.resource, new, old, status=status))
        assert asked.seen
    living = {"metadata": {"name": "one", "finalizers": ["example.com/held"]}, "spec": {}}
    asked = Asked(row)
    asked.answer(request(row.resource, {**living, "metadata": {"name": "one"}}, living))
    assert asked.seen


@each(UPDATES)
@pytest.mark.parametrize("user", [AGENT, NODE_USER_PREFIX, AGENTS])
def test_an_agent_releases_nothing_unseen(row: Webhook, user: str) -> None:
    """The agent of a node takes no part in deletions: its webhook sees that it removes a finalizer."""
    old = leaving({"metadata": {"name": "one"}, "spec": {"a": 1}})
    asked = Asked(row)
    asked.answer(request(row.resource, leaving(old, finalizers=[]), old, user=user))
    assert asked.seen


@each(DELETIONS)
def test_a_deletion_is_granted_once(row: Webhook) -> None:
    """Who deletes once more what is being deleted is not refused, however often; an agent and the first one are."""
    old = {"metadata": {"name": "one"}, "spec": {"a": 1}}
    for user in CONTROLLERS:
        assert Asked(row).answer(request(row.resource, None, leaving(old), user=user)).allowed
        assert Asked(row).answer(request(row.resource, None, old, user=user)) == refusal(WHY)
    assert Asked(row).answer(request(row.resource, None, leaving(old), user=AGENT)) == refusal(WHY)


def test_a_deletion_keeps_its_warnings() -> None:
    """A repeated request gets the warnings again for what an object waits."""

    async def warn(_admission: TableAdmission, _request: AdmissionRequest) -> tuple[str, ...]:
        return ("it is used",)

    for row in DELETIONS:
        table = TableAdmission([row._replace(function=warn)])
        asked = request(row.resource, None, leaving({"metadata": {"name": "one"}}))
        assert asyncio.run(table.validate(asked)).warnings == ("it is used",)


def test_no_feature_answers_beside_its_table() -> None:
    """The rule holds for every feature: none has a way of its own from a request to a rule."""
    for row in TABLE:
        owner = row.function.__globals__[row.function.__qualname__.partition(".")[0]]
        assert issubclass(owner, TableAdmission)
        assert not {"mutate", "validate", "refer", "_decide", "_find"} & vars(owner).keys()
