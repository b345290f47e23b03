"""Refusals, word for word. `docs/validation.md` is written from them, so that it shows what users really see."""

from collections.abc import Mapping
from typing import NamedTuple

import pytest

from lanloom.api.admission import AdmissionRequest
from tests.features.dummy.admission.requests import Present, told


class Case(NamedTuple):
    """A request, the objects that the server has, and the whole message with which it is refused.

    `refer` marks a review of the webhook of references.
    """

    asked: AdmissionRequest
    present: tuple[Present, ...]
    message: str
    refer: bool = False


Cases = Mapping[str, Case]
"""Refusals by the rule that they are an example of."""


def each(cases: Cases) -> pytest.MarkDecorator:
    """Runs a test for each case, under the name of its rule."""
    return pytest.mark.parametrize("case", cases.values(), ids=list(cases))


def answer(case: Case) -> str:
    """The message that the webhook really gives; empty if it allows the request."""
    verdict = told(case.asked, *case.present, refer=case.refer)
    assert verdict.allowed == (not verdict.message)
    return verdict.message
