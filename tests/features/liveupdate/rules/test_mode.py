"""Who changes the networks of running machines, by what KubeVirt's object says."""

from typing import Any

import pytest

from lanloom.api.kubevirtconfig import KubeVirt, KubeVirtVersion, parse_version
from lanloom.api.reading import convert
from lanloom.features.liveupdate.rules.mode import GATE, ModeName, mode_of

Raw = dict[str, Any]


def kubevirt(version: str = "", gates: list[str] | None = None, methods: list[str] | None = None) -> KubeVirt:
    """KubeVirt's object; None leaves a field out."""
    developer: Raw = {"featureGates": gates, "disabledFeatureGates": None}
    raw = {
        "metadata": {"name": "kubevirt", "namespace": "infra"},
        "spec": {
            "configuration": {"developerConfiguration": developer},
            "workloadUpdateStrategy": {"workloadUpdateMethods": methods},
        },
        "status": {"phase": "Deployed", "observedKubeVirtVersion": version},
    }
    return convert(raw, KubeVirt)


@pytest.mark.parametrize(
    ("version", "gates", "mode"),
    [
        ("v1.9.0", None, "companion"),
        ("v1.10.3", [], "companion"),
        ("v2.0.0", [], "companion"),
        ("v1.8.2", [GATE], "companion"),
        ("v1.8.2", [], "restart"),
        ("v1.8.0-rc.1", None, "restart"),
        ("v1.7.4", [GATE], "restart"),
        ("1.5.2-150700.3.1", None, "restart"),
        ("v0.59.2", None, "restart"),
        ("", None, "companion"),
        ("devel", None, "companion"),
    ],
)
def test_versions(version: str, gates: list[str] | None, mode: ModeName) -> None:
    """KubeVirt changes networks from 1.9 on, and in 1.8 with its feature gate; an unknown one is taken for recent."""
    assert mode_of([kubevirt(version, gates, ["LiveMigrate"])]).name == mode


def test_no_kubevirt() -> None:
    """Without KubeVirt's object its controllers don't run, and Lanloom does all."""
    found = mode_of([])
    assert (found.name, found.migrates, found.kubevirt) == ("full", True, "")


@pytest.mark.parametrize(
    ("methods", "migrates"), [(["LiveMigrate"], True), (["Evict"], False), ([], False), (None, False)]
)
def test_strategies(methods: list[str] | None, migrates: bool) -> None:
    """Without LiveMigrate among its methods KubeVirt migrates nothing by itself, and the hint says what to add."""
    found = mode_of([kubevirt("v1.9.0", None, methods)])
    assert (found.name, found.migrates) == ("companion", migrates)
    assert migrates is not (
        "add LiveMigrate to spec.workloadUpdateStrategy.workloadUpdateMethods" in found.hint
    )


@pytest.mark.parametrize(
    ("version", "remedy"),
    [("v1.8.1", f"add {GATE} to spec.configuration"), ("v1.7.0", "update KubeVirt to 1.9")],
)
def test_remedies(version: str, remedy: str) -> None:
    """Where another network needs a restart, the hint says what would change that."""
    assert remedy in mode_of([kubevirt(version)]).hint


@pytest.mark.parametrize(
    ("version", "gates", "methods", "sentence"),
    [
        (
            "v1.9.2",
            [],
            ["LiveMigrate"],
            "KubeVirt v1.9.2 migrates machines for an edit, and Lanloom moves NICs in place",
        ),
        (
            "v1.8.4",
            [GATE],
            ["LiveMigrate"],
            "KubeVirt v1.8.4 with the feature gate LiveUpdateNADRef migrates machines for an edit, and Lanloom moves "
            "NICs in place",
        ),
        (
            "v1.9.2",
            [],
            ["LiveMigrate", "Evict"],
            "KubeVirt v1.9.2 migrates machines that can migrate and shuts those that can't migrate down for an edit "
            "(Evict), and Lanloom moves NICs in place, of the latter only with --force",
        ),
        (
            "v1.9.2",
            [],
            ["Evict"],
            "KubeVirt v1.9.2 shuts machines down for an edit (Evict), and Lanloom moves NICs in place only with "
            "--force; add LiveMigrate",
        ),
        (
            "v1.9.2",
            [],
            [],
            "KubeVirt v1.9.2 migrates nothing by itself, and Lanloom moves NICs in place; add LiveMigrate",
        ),
        (
            "v1.7.4",
            [],
            ["LiveMigrate"],
            "KubeVirt v1.7.4 changes no network of a running machine, and Lanloom moves NICs in place of machines "
            "that can't migrate only (--until-restart); update KubeVirt to 1.9",
        ),
        (
            "",
            [],
            ["LiveMigrate"],
            "KubeVirt infra/kubevirt, whose version can't be read, migrates machines for an edit",
        ),
    ],
)
def test_who_acts(version: str, gates: list[str], methods: list[str], sentence: str) -> None:
    """One sentence tells who acts, by KubeVirt's version, its gates and its methods."""
    assert mode_of([kubevirt(version, gates, methods)]).actors.startswith(sentence)


def test_several() -> None:
    """Of several objects the first by name counts, so that the mode does not depend on their order."""
    other = convert(
        {"metadata": {"name": "a", "namespace": "a"}, "status": {"observedKubeVirtVersion": "v1.7.0"}},
        KubeVirt,
    )
    both = [kubevirt("v1.9.0"), other]
    assert mode_of(both) == mode_of(both[::-1]) == mode_of([other])


@pytest.mark.parametrize(
    ("text", "version"),
    [("v1.8.2", (1, 8)), ("1.8", (1, 8)), ("v1", None), ("v1.8x", (1, 8)), ("١.٨", None), ("v99999.1", None)],
)
def test_parse_version(text: str, version: tuple[int, int] | None) -> None:
    """A version begins with two numbers."""
    assert parse_version(text) == (KubeVirtVersion(*version) if version is not None else None)
