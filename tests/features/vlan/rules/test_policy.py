"""The parser of a roll-out policy: a limit that can't be understood is refused, never taken for none."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanloom.api.l3 import AnnotationError, parse_node_name
from lanloom.features.vlan.rules.rollout.policy import (
    POLICY_MAX,
    Percentage,
    RolloutPolicy,
    parse_rollout,
)
from tests.api.test_l3 import JSON, NODE_NAMES, TEXTS

FIELD = "network.harvesterhci.io/rollout"


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("{}", RolloutPolicy()),
        ('{"maxUnavailable": 3}', RolloutPolicy(max_unavailable=3)),
        (' {"maxUnavailable" : "25%"}\n', RolloutPolicy(max_unavailable=Percentage(25))),
        ('{"maxUnavailable": "100%"}', RolloutPolicy(max_unavailable=Percentage(100))),
        ('{"canary": ["node2", "node1"]}', RolloutPolicy(canary=("node2", "node1"))),
        ('{"canary": [], "maxUnavailable": 1}', RolloutPolicy()),
    ],
)
def test_policies_that_can_be_read(text: str, policy: RolloutPolicy) -> None:
    """Both fields are optional: one node at a time, and no canary, is what is meant without them."""
    assert parse_rollout(text) == policy


_LIMIT = 'it must be a number of nodes from 1, or a percentage from "1%" to "100%"'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", f"{FIELD} is not valid JSON; it must be an object such as"),
        ("[" * 50_000, f"{FIELD} is not valid JSON"),
        ("1", f"{FIELD} must be a JSON object such as"),
        ("[]", f"{FIELD} must be a JSON object such as"),
        ('"x"', f"{FIELD} must be a JSON object such as"),
        (
            '{"maxunavailable": 1}',
            f'{FIELD} has the field "maxunavailable"; it may have maxUnavailable and canary',
        ),
        ('{"canary": [], "canary": []}', f'{FIELD} has the field "canary" twice'),
        ('{"maxUnavailable": 0}', f"{FIELD}.maxUnavailable is 0; {_LIMIT}"),
        ('{"maxUnavailable": -1}', f"{FIELD}.maxUnavailable is -1; {_LIMIT}"),
        ('{"maxUnavailable": true}', f"{FIELD}.maxUnavailable is true; {_LIMIT}"),
        ('{"maxUnavailable": 1.0}', f"{FIELD}.maxUnavailable is 1.0; {_LIMIT}"),
        ('{"maxUnavailable": null}', f"{FIELD}.maxUnavailable is null; {_LIMIT}"),
        ('{"maxUnavailable": "1"}', f'{FIELD}.maxUnavailable is "1"; {_LIMIT}'),
        ('{"maxUnavailable": "0%"}', f'{FIELD}.maxUnavailable is "0%"; {_LIMIT}'),
        ('{"maxUnavailable": "05%"}', f'{FIELD}.maxUnavailable is "05%"; {_LIMIT}'),
        ('{"maxUnavailable": "101%"}', f'{FIELD}.maxUnavailable is "101%"; {_LIMIT}'),
        ('{"maxUnavailable": "25%\\n"}', f'{FIELD}.maxUnavailable is "25%\\n"; {_LIMIT}'),
        ('{"maxUnavailable": "٢٥%"}', f"{FIELD}.maxUnavailable is "),
        (
            '{"canary": "node1"}',
            f'{FIELD}.canary is "node1"; it must be a list of node names such as ["node1"]',
        ),
        ('{"canary": {}}', f"{FIELD}.canary is {{}}; it must be a list of node names"),
        ('{"canary": [1]}', f"{FIELD}.canary has the item 1, which is not the name of a node"),
        ('{"canary": [""]}', f'{FIELD}.canary has the item "", which is not the name of a node'),
        ('{"canary": ["*"]}', f'{FIELD}.canary has the item "*", which is not the name of a node'),
        ('{"canary": ["a", "a"]}', f'{FIELD}.canary names node "a" twice'),
        (" " * (POLICY_MAX + 1), f"{FIELD} has 65537 characters; at most 65536 are allowed"),
    ],
)
def test_policies_that_are_refused(text: str, message: str) -> None:
    """Each mistake has its own message, which names the field and what is allowed."""
    with pytest.raises(AnnotationError) as caught:
        parse_rollout(text)
    assert str(caught.value).startswith(message)


_SHARES = st.integers(-1, 120).map("{}%".format)
_FIELDS = st.fixed_dictionaries(
    {},
    optional={"maxUnavailable": JSON | st.integers(-1, 9) | _SHARES, "canary": JSON | st.lists(NODE_NAMES)},
)


@given(TEXTS | JSON.map(json.dumps) | _FIELDS.map(json.dumps))
def test_any_text_is_a_sane_policy_or_refused(text: str) -> None:
    """Whatever is written: a policy allows at least one node and names nodes only, or AnnotationError says why not."""
    try:
        policy = parse_rollout(text)
    except AnnotationError as error:
        assert str(error).startswith(FIELD)
        return
    assert all(parse_node_name("", name) == name for name in policy.canary)
    assert len(set(policy.canary)) == len(policy.canary)
    assert policy.limit(0) >= 1


@pytest.mark.parametrize(
    ("share", "nodes", "limit"), [(25, 8, 2), (25, 7, 1), (25, 1, 1), (1, 99, 1), (100, 7, 7), (1, 500, 5)]
)
def test_a_percentage_is_rounded_down_and_never_to_nothing(share: int, nodes: int, limit: int) -> None:
    """A share of the nodes is rounded down; one node may always be unavailable, or nothing would ever move."""
    assert RolloutPolicy(max_unavailable=Percentage(share)).limit(nodes) == limit
