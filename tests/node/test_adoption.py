"""What no node of the contract can show of bridges that are taken over."""

import pytest

from lanloom.node.adoption import is_made_by_plugin
from lanloom.node.ports import Link


@pytest.mark.parametrize(("master", "taken"), [("", True), ("vrf1", False)])
def test_a_bridge_in_a_vrf(master: str, taken: bool) -> None:
    """A bridge that somebody has put under another link is not the plugin's."""
    bridge = Link(name="d-br", index=1, kind="bridge", ignores_routers=True, master=master)
    assert is_made_by_plugin(bridge, {"d-br": bridge}, "") is taken
