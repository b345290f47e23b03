"""What scenarios look at."""

from lanloom.api.dummy import (
    DUMMY_CLUSTER_NETWORKS,
    UID_LABEL,
)
from lanloom.kube.conditions import find
from tests.features.dummy.scenarios.state import State

DCN = DUMMY_CLUSTER_NETWORKS


def condition(state: State, type: str) -> str:
    """What a condition of the network says, empty if it does not exist."""
    found = find(state.dcn.status.conditions, type)
    return f"{found.status} {found.reason}" if found is not None else ""


def is_gone(state: State) -> bool:
    """Whether the network and all that was made for it is gone."""
    left = [title for title, item in state.objects.items() if UID_LABEL in item.metadata.labels]
    return state.find(DCN, "net") is None and not left
