"""Alongside Harvester's controller no webhook holds up what its processes write, whether or not a manager answers."""

import asyncio
from typing import Any, NamedTuple

import pytest

from lanloom.api.harvester import (
    CLUSTER_NETWORKS,
    GROUP,
    HOST_NETWORK_CONFIGS,
    VLAN_CONFIGS,
    VLAN_STATUSES,
)
from lanloom.api.multus import NADS
from lanloom.api.names import HARVESTER_CONTROLLER
from lanloom.features import FEATURES
from lanloom.refusals import Denied
from lanloom.runtime.feature import webhooks_of
from lanloom.runtime.webhookconfig import webhook_configurations
from lanloom.runtime.webhooktable import TableAdmission, Webhook
from tests.harness.admission import request


class Write(NamedTuple):
    """What Harvester's controller does; `group`, `resource` with a subresource, operation."""

    group: str
    resource: str
    operation: str


WRITES = (
    *(Write(GROUP, "clusternetworks", verb) for verb in ("CREATE", "UPDATE")),
    *(Write(GROUP, "vlanconfigs", verb) for verb in ("CREATE", "UPDATE", "DELETE")),
    *(Write(GROUP, "vlanstatuses", verb) for verb in ("CREATE", "UPDATE", "DELETE")),
    *(Write(GROUP, "hostnetworkconfigs", "UPDATE"), Write(GROUP, "hostnetworkconfigs/status", "UPDATE")),
    *(Write(GROUP, "linkmonitors", verb) for verb in ("CREATE", "UPDATE", "DELETE")),
    Write("k8s.cni.cncf.io", NADS.plural, "UPDATE"),
    Write("", "nodes", "UPDATE"),
    *(Write("batch", "jobs", verb) for verb in ("CREATE", "UPDATE", "DELETE")),
)
"""All that the manager and the agents of Harvester's network controller write (its pkg/controller, at 2e5cbea)."""


def registered(*, beside: bool) -> list[dict[str, Any]]:
    """The webhooks of all features, as they are registered at the API server."""
    table = webhooks_of(FEATURES)
    found = webhook_configurations(table, lambda path: {"url": f"https://there{path}"}, coexists=beside)
    return [webhook for configuration in found for webhook in configuration["webhooks"]]


def matches(webhook: dict[str, Any], write: Write) -> bool:
    """Whether a rule of a webhook is about it."""
    return any(
        write.group in rule["apiGroups"]
        and write.resource in rule["resources"]
        and write.operation in rule["operations"]
        for rule in webhook["rules"]
    )


def excludes(webhook: dict[str, Any]) -> bool:
    """Whether a condition takes Harvester's controller out, which the API server judges itself."""
    expression = f"request.userInfo.username != '{HARVESTER_CONTROLLER}'"
    return any(item["expression"] == expression for item in webhook.get("matchConditions", ()))


@pytest.mark.parametrize("write", WRITES, ids=lambda item: f"{item.operation} {item.resource}")
def test_no_webhook_holds_up_harvesters_controller(write: Write) -> None:
    """What its processes write is asked of no webhook that fails closed."""
    asked = [webhook for webhook in registered(beside=True) if matches(webhook, write)]
    assert all(webhook["failurePolicy"] == "Ignore" or excludes(webhook) for webhook in asked)


def test_no_webhook_that_fails_closed_has_a_kind_of_harvester() -> None:
    """It follows from the kind, whichever feature has the webhook; alone, each of them fails closed."""
    closed = [webhook for webhook in registered(beside=True) if webhook["failurePolicy"] == "Fail"]
    assert not [
        webhook["name"] for webhook in closed for rule in webhook["rules"] if GROUP in rule["apiGroups"]
    ]
    assert {webhook["failurePolicy"] for webhook in registered(beside=False)} == {"Fail"}


def test_both_modes_ask_the_same() -> None:
    """Every rule of the one mode is one of the other: nothing is left out in either, and NADs of users fail closed."""

    def rules(*, beside: bool) -> list[str]:
        return sorted(
            f"{rule['apiGroups']} {rule['resources']} {rule['operations']} {webhook['clientConfig']}"
            for webhook in registered(beside=beside)
            for rule in webhook["rules"]
        )

    assert rules(beside=True) == rules(beside=False)
    nads = Write("k8s.cni.cncf.io", NADS.plural, "UPDATE")
    found = {webhook["failurePolicy"] for webhook in registered(beside=True) if matches(webhook, nads)}
    assert found == {"Fail"}


@pytest.mark.parametrize(
    "kind",
    [CLUSTER_NETWORKS, VLAN_CONFIGS, VLAN_STATUSES, HOST_NETWORK_CONFIGS, NADS],
    ids=lambda item: item.plural,
)
def test_its_own_writes_are_not_judged(kind: Any) -> None:
    """Whatever a feature says of what its controller manages: its writes pass, and those of others are judged."""

    async def refuse(_admission: TableAdmission, _request: object) -> tuple[str, ...]:
        raise Denied("no")

    admission = TableAdmission([Webhook("validate", kind, ("CREATE",), refuse)])
    for user, allowed in ((HARVESTER_CONTROLLER, True), ("jane", False)):
        asked = request(kind, {"metadata": {"name": "x"}}, user=user)
        assert asyncio.run(admission.validate(asked)).allowed == allowed
