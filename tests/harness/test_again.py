"""What others disturb is attempted again, and what is wrong is not hidden."""

import pytest

from tests.harness.again import TRIES, again


@pytest.mark.parametrize("disturbed", range(TRIES))
def test_what_others_disturb(disturbed: int) -> None:
    """An attempt that others disturb is repeated until it succeeds."""
    found = iter([*(["gone"] * disturbed), "done"])

    def attempt() -> str:
        if (outcome := next(found)) == "gone":
            raise LookupError
        return outcome

    assert again(attempt, LookupError) == "done"


@pytest.mark.parametrize(("error", "attempts"), [(LookupError, TRIES), (ValueError, 1)])
def test_what_is_wrong(error: type[Exception], attempts: int) -> None:
    """What fails each time, or in another way, fails."""
    made = 0

    def attempt() -> None:
        nonlocal made
        made += 1
        raise error

    with pytest.raises(error):
        again(attempt, LookupError)
    assert made == attempts
