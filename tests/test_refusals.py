"""What messages say of objects that their readers may not be allowed to read."""

import pytest

from lanloom.refusals import title_for, titles_for


@pytest.mark.parametrize(
    ("reader", "namespace", "title"),
    [
        ("here", "here", "LAN here/blue"),
        ("here", "there", "a LAN of another namespace"),
        ("", "there", "a LAN of another namespace"),
        ("here", "", "LAN blue"),
    ],
)
def test_objects_of_other_namespaces(reader: str, namespace: str, title: str) -> None:
    """An object is named to users of its own namespace; others read only its kind."""
    assert title_for(reader, "LAN", namespace, "blue") == title


def test_lists_of_objects() -> None:
    """Objects of the reader's namespace are named, and those of others are counted."""
    titles = [("there", "Pod b"), ("here", "Pod b"), ("here", "Pod a"), ("elsewhere", "Pod a")]
    assert titles_for("here", titles) == ("Pod b", "Pod a", "2 of other namespaces")
    assert titles_for("here", titles[1:3]) == ("Pod b", "Pod a")
    assert titles_for("none", titles[:1]) == ("1 of other namespaces",)
