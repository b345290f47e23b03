"""What a stream sends of a page that has changed."""

from hypothesis import given
from hypothesis import strategies as st

from lanloom.console.live import MOST_COMPARED, changes_of, parts_of

PARTS = st.lists(st.sampled_from("abcdef"), max_size=12)


def applied(old: list[str], new: list[str]) -> list[str]:
    """The old parts with the changes, as the browser applies them."""
    parts = list(old)
    for at, removed, added in changes_of(old, new):
        runs = ([item] if isinstance(item, str) else old[item[0] : sum(item)] for item in added)
        parts[at : at + removed] = [part for run in runs for part in run]
    return parts


@given(PARTS, PARTS)
def test_changes_make_the_new_page_of_the_old_one(old: list[str], new: list[str]) -> None:
    """The changes of a page's parts lead to the new page, and nothing is sent of the same page."""
    assert applied(old, new) == new
    assert changes_of(new, new) == []


def test_a_very_long_page_is_replaced() -> None:
    """More parts than are compared are replaced as a whole, between what is the same before and after."""
    old = ["head", *(f"a{n}" for n in range(MOST_COMPARED + 1)), "foot"]
    new = ["head", *(f"b{n}" for n in range(MOST_COMPARED)), "foot"]
    assert applied(old, new) == new
    assert len(changes_of(old, new)) == 1
    moved = ["head", "new", *old[2:-1], "a0", "foot"]
    assert changes_of(old, moved) == [(1, MOST_COMPARED + 1, ["new", (2, MOST_COMPARED), (1, 1)])]


def test_rows_that_move_are_sent_as_numbers() -> None:
    """Of rows that come to the top with a change, the change is sent, and where the rest of them was before."""
    rows = [f"<tr><td>{n}</td></tr>" for n in range(50)]
    assert changes_of(rows, [rows[-1], *rows[:-1]]) == [(49, 1, []), (0, 0, [(49, 1)])]
    assert changes_of(rows, [*rows[-2:], *rows[:-2]]) == [(48, 2, []), (0, 0, [(48, 2)])]
    assert changes_of(rows, ["new", *rows]) == [(0, 0, ["new"])]


def test_rows_that_all_changed_are_one_change() -> None:
    """Of rows that all changed at the same moment, what they have in common is not looked for one by one."""
    old, new = (
        [part for n in range(MOST_COMPARED // 2 - 1) for part in ("<tr>", f"<a>{word}{n}")] for word in "ab"
    )
    assert len(changes_of(old, new)) == 1
    new[500:] = old[500:]
    assert len(changes_of(old, new)) == 1 and applied(old, new) == new


@given(st.lists(st.sampled_from(["<tr>", "<td>x", "<a href='/'>", "text", "<p >", "</p>"]), max_size=20))
def test_parts_are_the_page(pieces: list[str]) -> None:
    """The parts of a page, one after the other, are the page."""
    html = "".join(pieces)
    assert "".join(parts_of(html)) == html
