"""Refusals, word for word. `docs/validation.md` is written from them, so that it shows what users really see."""

from collections.abc import Mapping
from typing import NamedTuple

import pytest

from lanloom.api.admission import AdmissionRequest
from tests.features.ipam.admission.requests import Present, verdict_of


class Case(NamedTuple):
    """A request, the objects that the server has, and the whole message with which it is refused."""

    asked: AdmissionRequest
    present: tuple[Present, ...]
    message: str


Cases = Mapping[str, Case]
"""Refusals by the rule that they are an example of."""


def each(cases: Cases) -> pytest.MarkDecorator:
    """Run a test for each case, under the name of its rule."""
    return pytest.mark.parametrize("case", cases.values(), ids=list(cases))


def answer(case: Case) -> str:
    """The message that the webhook really gives; empty if it allows the request."""
    verdict = verdict_of(case.asked, *case.present)
    assert verdict.allowed == (not verdict.message)
    return verdict.message
