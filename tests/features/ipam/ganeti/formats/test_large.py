"""Clusters with a full /16 and ten thousand instances."""

from collections.abc import Callable

import pytest

from lanloom.features.ipam.ganeti.formats.conversion import downgrade_config, upgrade_config
from lanloom.features.ipam.ganeti.formats.verify import verify_config
from tests.features.ipam.ganeti.formats.clusters import (
    Json,
    haskell_text,
    large,
    python_text,
)


@pytest.mark.slow
@pytest.mark.parametrize("write", [python_text, haskell_text])
def test_large(write: Callable[[Json], str]) -> None:
    """Ten thousand instances are upgraded, verified and downgraded, and nothing else changes."""
    before = write(large())
    up = upgrade_config(before)
    assert verify_config(up.text) == ()
    assert downgrade_config(up.text).text == before
    assert (up.networks, up.nics, up.notes) == (2, 10_000, ())
