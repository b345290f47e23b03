"""The past is remembered within two limits: a number of changes, and their bytes."""

from lanloom.api.meta import Key
from lanloom.apiserver.engine.history import History
from lanloom.apiserver.engine.stored import Change, stored
from lanloom.apiserver.kinds import GroupPlural


def change(version: int, size: int = 0) -> Change:
    """A new object of about so many bytes."""
    body = {"metadata": {"name": f"n{version}"}, "data": "x" * size}
    return Change(GroupPlural("", "things"), Key("", f"n{version}"), version, None, stored(body, version))


def test_nothing_is_forgotten_below_the_limits() -> None:
    """Within both limits the compacted version stays."""
    history = History(1, [change(version) for version in range(2, 12)], limit=20)
    assert history.compaction([change(12)]) == 1


def test_too_many_changes_push_out_the_oldest_quarter() -> None:
    """When a change too many comes, three quarters of the limit remain."""
    history = History(1, [change(version) for version in range(2, 22)], limit=20)
    compacted = history.compaction([change(22)])
    assert compacted == 7
    history.forget(compacted)
    assert history.compacted == 7
    assert history.compaction([change(22)]) == 7


def test_large_objects_push_out_as_many_as_it_takes() -> None:
    """A few large changes are too much as well."""
    history = History(1, [change(version, 1000) for version in range(2, 10)], weight_limit=10_000)
    compacted = history.compaction([change(10, 5000)])
    assert compacted == 7
    history.forget(compacted)
    assert history.compaction([]) == 7


def test_one_huge_change_leaves_nothing_but_itself() -> None:
    """What is larger than the limit alone pushes out all that was there."""
    history = History(1, [change(2), change(3)], weight_limit=1000)
    assert history.compaction([change(4, 5000)]) == 3
