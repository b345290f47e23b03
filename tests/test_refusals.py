"""What messages say of objects that their readers may not be allowed to read."""

import pytest

from lanloom.refusals import title_for


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
    """An object is named to users of its own namespace; to others only its kind is told."""
    assert title_for(reader, "LAN", namespace, "blue") == title
