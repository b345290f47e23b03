"""Every feature has the same parts under the same names, so that a reader of one finds everything in the next."""

import subprocess
import sys
from pathlib import Path

import pytest

import lanloom.features
from lanloom.features import FEATURES
from lanloom.runtime.feature import Feature

ROOT = Path(lanloom.features.__file__).parent

PLACES = {
    "rights": {"rights:RIGHTS"},
    "webhooks": {"admission:WEBHOOKS"},
    "manager": {"manager:build"},
    "manager_options": {"options:MANAGER_OPTIONS"},
    "agent": {"agent:build"},
    "agent_options": {"agentoptions:AGENT_OPTIONS"},
    "blockers": {"blockers:BLOCKERS"},
    "checks": {"checks:check"},
    "trials": {"trials:plan"},
    "pages": {"pages:PAGES"},
    "node": {"pages:NODE", "nodepages:NODE"},
}
"""Field of a feature → where in its package what the field names may be."""

MODULES = {"metrics": "metrics", "agent_metrics": "agent.metrics"}
"""Field → the module of a class whose name is the feature's own."""

PARTS = ("rules", "manager", "agent", "admission", "cli", "metrics", "blockers", "rights", "pages")
"""Modules, or packages where one module would be too long, that every feature has."""

AGENT_ALONE = "dhcp"
"""A part of address management that agents run or not: a feature by that alone, in that feature's package."""

GROUND = "nads"
"""What features build on, and import: a feature to processes, and no folder next to it."""

each_feature = pytest.mark.parametrize(
    "feature",
    [each for each in FEATURES if each.name not in (AGENT_ALONE, GROUND)],
    ids=lambda feature: feature.name,
)


def _named(feature: Feature, field: str) -> str:
    """What a field names, from the feature's package on; empty if nothing."""
    return str(getattr(feature, field)).removeprefix(f"lanloom.features.{feature.name}.")


@each_feature
def test_what_a_feature_names_is_in_its_place(feature: Feature) -> None:
    """Each part that processes load is in the module of that name, in every feature."""
    for field, places in PLACES.items():
        assert _named(feature, field) in places | {""}, field
    for field, module in MODULES.items():
        assert _named(feature, field).partition(":")[0] == module, field
    for module, _help in feature.commands.values():
        assert module.removeprefix(f"lanloom.features.{feature.name}.").partition(".")[0] == "cli"


@each_feature
def test_every_feature_has_the_same_parts(feature: Feature) -> None:
    """Rules, processes, webhooks, commands, metrics, rights and pages have the same names in every feature."""
    here = ROOT / feature.name
    found = {path.stem for path in here.glob("*.py")} | {
        path.parent.name for path in here.glob("*/__init__.py")
    }
    assert set(PARTS) - found == set()


def test_every_package_is_a_feature() -> None:
    """No package lies next to the features that is none."""
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert packages == {feature.name for feature in FEATURES} - {AGENT_ALONE, GROUND}


MANAGER = """
import random, sys, time
from lanloom.features import FEATURES
from lanloom.processes.manager import Manager, ManagerSettings
names = sys.argv[1:]
features = [each for each in FEATURES if each.name in names]
Manager(None, ManagerSettings(identity="m"), now=time.time, rng=random.Random(1), features=features)
print(*sys.modules)
"""


def _needed(name: str) -> set[str]:
    """Return a feature and all that it says to come after, and these in turn."""
    (feature,) = (each for each in FEATURES if each.name == name)
    return {name}.union(*map(_needed, feature.after))


@pytest.mark.parametrize("name", [feature.name for feature in FEATURES if feature.manager])
def test_a_feature_needs_no_other_than_it_says(name: str) -> None:
    """A manager of one feature, and of those that it comes after, runs no module of the others."""
    done = subprocess.run(
        [sys.executable, "-c", MANAGER, *_needed(name)], capture_output=True, text=True, check=True
    )
    packages = {f"lanloom.features.{each.name}" for each in FEATURES} | {
        f"lanloom.features.ipam.{AGENT_ALONE}"
    }
    run = {module for module in done.stdout.split() if module.startswith("lanloom.features.")} - packages
    assert {module.split(".")[2] for module in run} <= _needed(name)


def test_lans_need_no_isolated_networks() -> None:
    """LANs work in a manager without isolated networks: who uses a NAD is known to the ground."""
    assert "dummy" not in _needed("lan") | _needed("liveupdate")
