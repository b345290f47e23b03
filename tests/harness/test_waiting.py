"""How tests wait for what others bring about."""

import pytest

from tests.harness.waiting import Looks


def test_a_look_too_early() -> None:
    """A look that fails at what is not there yet is followed by another one; any other failure is one."""
    looks = Looks(60.0, (LookupError,))
    with looks.look():
        raise KeyError("status")
    assert str(looks.failure) == "'status'" and 0.1 <= looks.pause() <= 1.0
    with looks.look():
        pass
    assert looks.failure is None
    with pytest.raises(TypeError), looks.look():
        raise TypeError


def test_no_time_left() -> None:
    """The last look that failed is the cause of the end."""
    looks = Looks(0.0, (LookupError,))
    with looks.look():
        raise KeyError("status")
    with pytest.raises(AssertionError) as ended:
        looks.pause()
    assert isinstance(ended.value.__cause__, KeyError)


def test_what_takes_long_is_seldom_looked_at() -> None:
    """Pauses grow with the time that was waited, and with that of a look, between the shortest and the longest one."""
    now = 0.0
    looks = Looks(shortest=0.1, longest=1.0, clock=lambda: now)
    pauses = []
    while now < 10:
        with looks.look():
            pass
        pauses.append(looks.pause())
        now += pauses[-1]
    assert pauses[0] == 0.1 and pauses[-1] == 1.0 and pauses == sorted(pauses) and len(pauses) < 35
    slow = Looks(clock=lambda: now)
    with slow.look():
        now += 0.2
    assert slow.pause() == pytest.approx(0.4)
