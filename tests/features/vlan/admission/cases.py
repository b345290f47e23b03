"""Refusals, word for word. `docs/validation.md` is written from them, so that it shows what users really see."""

from collections.abc import Mapping
from typing import NamedTuple

import pytest

from lanloom.api.admission import AdmissionRequest
from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES
from lanloom.api.harvester import VLAN_STATUSES
from lanloom.features.vlan.admission import check_request
from lanloom.features.vlan.reader import ClusterReader
from tests.features.vlan.admission.requests import report_verdict


class Case(NamedTuple):
    """A request, the cluster that it is judged in, and the whole message with which it is refused.

    `coexisting` is whether Harvester is there."""

    asked: AdmissionRequest
    seen: ClusterReader
    message: str
    coexisting: bool = False


Cases = Mapping[str, Case]
"""Refusals by the rule that they are an example of."""


def each(cases: Cases) -> pytest.MarkDecorator:
    """Runs a test for each case, under the name of its rule."""
    return pytest.mark.parametrize("case", cases.values(), ids=list(cases))


def answer(case: Case) -> str:
    """The message that the webhook really gives; empty if it allows the request."""
    of_agent = case.asked.resource.resource in (CLUSTER_NETWORK_NODES.plural, VLAN_STATUSES.plural)
    verdict = (
        report_verdict(case.asked)
        if of_agent
        else check_request(case.asked, case.seen, coexisting=case.coexisting)
    )
    assert verdict.allowed == (not verdict.message)
    return verdict.message
