"""What the requests of many agents come to in a few figures."""

import math

from hypothesis import given
from hypothesis import strategies as st

from bench.largeagent import Asked
from bench.largerequests import busiest, figures, watched_again

TIMES = st.lists(st.integers(0, 100).map(lambda sixteenths: sixteenths / 16))


@given(TIMES)
def test_no_second_is_busier(times: list[float]) -> None:
    """The busiest second has as many requests as the fullest second that begins with a request."""
    fullest = max((sum(first <= time < first + 1.0 for time in times) for first in times), default=0)
    assert busiest(times) == fullest


def test_a_burst_counts_across_the_clock() -> None:
    """A burst that the clock's seconds divide counts as one."""
    assert busiest([0.9, 0.95, 1.0, 1.05, 1.95]) == 4


def _watch(resource: str, began: float, code: str = "200") -> Asked:
    return Asked(began, began + 0.5, "watch", resource, code)


def test_it_is_back_with_its_last_watch() -> None:
    """An agent is back when each kind that it watched before is watched again, by the last watch of each."""
    before = [_watch("nodes", 1.0), _watch("pods", 2.0)]
    refused = [_watch("nodes", 11.0, "403"), _watch("pods", 11.0)]
    assert watched_again([*before, *refused], 10.0) == math.inf
    assert watched_again([*before, *refused, _watch("nodes", 13.0), _watch("pods", 14.0)], 10.0) == 14.5


def test_refusals_are_counted() -> None:
    """Requests without an answer are none of the answers, and those that were too many have a figure."""
    asked = [_watch("nodes", 1.0, "429"), _watch("nodes", 1.2, "error"), _watch("nodes", 9.0)]
    found = figures(asked, 2)
    assert (found["of each"], found["too many"]) == (1.5, 1)
    assert found["in the busiest second"] == 2
    assert found["answers in the busiest second"] == 1
