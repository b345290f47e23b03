"""The NICs of a machine as a drawing: where each is, what moves it, and where it is to be."""

import pytest

from lanloom.console.page import BUSY, NOT_READY, READY, Drawing
from lanloom.features.liveupdate.moves import moves_of, way_of
from lanloom.features.liveupdate.views import MachineView, MigrationView, NicView, SwapView

SETTLED = NicView(name="blue", wanted="a/x", instance="a/x", observed="a/x")
AWAY = NicView(name="blue", wanted="a/y", instance="a/x", observed="a/x")
UNPLUGGED = NicView(name="blue", wanted="", instance="a/x", observed="a/x")
FRESH = NicView(name="blue", wanted="a/y")


def swap(phase: str, network: str = "blue") -> SwapView:
    """A swap of a NIC from x to y."""
    return SwapView(
        name="s", network=network, from_="a/x", to="a/y", phase=phase, gap=9.7, created="2026-01-02"
    )


def migration(phase: str) -> MigrationView:
    """A migration between two nodes."""
    return MigrationView(name="m", phase=phase, source="node1", target="node2", created="2026-01-01")


def view(
    nic: NicView,
    swaps: tuple[SwapView, ...] = (),
    moves: tuple[MigrationView, ...] = (),
    state: str = "Ready",
) -> MachineView:
    """A machine with one NIC."""
    return MachineView(
        namespace="a", name="vm", uid="u", state=state, nics=(nic,), swaps=swaps, migrations=moves
    )


def shown(drawing: Drawing) -> dict[str, list[tuple[str, str]]]:
    """Labels and states of the boxes by layer."""
    return {title: [(box.label, box.state) for box in boxes] for title, boxes in drawing.layers if boxes}


@pytest.mark.parametrize(
    ("nic", "swaps", "moves", "way"),
    [
        (AWAY, (swap("Moving"),), (), ("Moving", BUSY)),
        (AWAY, (swap("Failed"),), (), ("Waiting", NOT_READY)),
        (AWAY, (swap("Moving", "red"),), (), ("Waiting", NOT_READY)),
        (AWAY, (), (migration("Running"),), ("Migration: Running", BUSY)),
        (AWAY, (), (migration("Succeeded"),), ("Waiting", NOT_READY)),
        (AWAY, (swap("Succeeded"),), (migration("Pending"),), ("Migration: Pending", BUSY)),
        (FRESH, (), (), ("Waiting", NOT_READY)),
        (UNPLUGGED, (), (), ("Waiting", NOT_READY)),
    ],
)
def test_a_nic_on_its_way(
    nic: NicView, swaps: tuple[SwapView, ...], moves: tuple[MigrationView, ...], way: tuple[str, str]
) -> None:
    """A NIC that is not where it is to be stands between both networks, with what moves it, or that nothing does."""
    drawing = way_of(view(nic, swaps, moves))
    found = shown(drawing)
    assert found["Under way"] == [way] and found["NIC"] == [("blue", way[1])]
    assert found["Is to be on"] == [(nic.wanted or "unplugged", "")]
    assert ("Is on" in found) == bool(nic.observed)
    keys = {box.key for _, boxes in drawing.layers for box in boxes}
    assert all(left in keys and right in keys for left, right in drawing.lines)


def test_a_nic_that_is_settled() -> None:
    """A NIC that is where it is to be has one network, and nothing is under way."""
    assert shown(way_of(view(SETTLED))) == {"NIC": [("blue", READY)], "Is on": [("a/x", "")]}


@pytest.mark.parametrize(("state", "shape"), [("Stopped", ""), ("Stopping", BUSY)])
def test_a_machine_that_does_not_run(state: str, shape: str) -> None:
    """A NIC of a machine that has stopped, or is about to, is not reported: it gets its network at the next start."""
    found = shown(way_of(view(FRESH, state=state)))
    assert found["NIC"] == [("blue", shape)] and found["Under way"] == [("Next start", shape)]


def test_the_history_has_the_latest_first() -> None:
    """Swaps and migrations are one history; a swap tells how long the NIC was silent."""
    found = moves_of(view(SETTLED, (swap("Succeeded"),), (migration("Failed"),)))
    assert [(item.name, item.silence) for item in found] == [("s", 9.7), ("m", 0.0)]
    assert found[0].what == "blue: a/x → a/y" and found[1].what == "node1 → node2"
