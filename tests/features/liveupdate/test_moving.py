"""What `lanloom vm move` creates."""

import re

import pytest

from lanloom.features.liveupdate.moving import name_prefix

SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


@pytest.mark.parametrize(
    "machine", ["a", "a.b", "x" * 253, "x" * 239 + ".y", "x" * 238 + "-.y", "x" * 240 + ".y"]
)
def test_a_machine_of_any_name_can_be_moved(machine: str) -> None:
    """The name that the server makes for a NetworkSwap is valid (RFC 1123), however long the machine's is."""
    name = name_prefix(machine) + "x2v9w"
    assert len(name) <= 253
    assert SUBDOMAIN.fullmatch(name)
