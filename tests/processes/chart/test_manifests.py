"""The manifests that follow from the chart and from the code, as they are in the repository."""

import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from difflib import unified_diff
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from lanloom import __version__
from lanloom.command import cli
from lanloom.processes.chart import source
from lanloom.processes.chart.values import merged, validated
from scripts.manifests import DEPLOY, generated, rendered
from tests.processes.chart.sets import GOLDEN, documents, value_sets

SETS = value_sets()
WRITTEN = {**generated(), **rendered()}


@pytest.mark.parametrize("name", WRITTEN)
def test_the_files_follow_from_the_code(name: str) -> None:
    """What `make manifests` writes is what the repository has."""
    assert (DEPLOY / name).read_text() == WRITTEN[name]


def differences(values: dict[str, Any]) -> Iterator[str]:
    """What values change in deploy/*.yaml; of kinds and dashboards only whether they are there."""
    texts = dict(source.rendered(values))
    definitions = texts.pop("crds", "")
    yield f"kinds: {bool(definitions)}, kept: {'resource-policy: keep' in definitions}"
    yield f"dashboards: {bool(texts.pop('dashboards', ''))}"
    for name in source.ORDER:
        path = DEPLOY / f"{name}.yaml"
        if name not in texts and path.exists():
            yield f"without {path.name}"
        elif name in texts:
            before = path.read_text().splitlines() if path.exists() else []
            lines = unified_diff(before, texts[name].splitlines(), n=1, lineterm="")
            changes = ["@@" if line.startswith("@@") else line for line in lines][2:]
            yield from [f"in {path.name}", *changes] if changes else ()


@pytest.mark.parametrize("name", SETS)
def test_golden(name: str) -> None:
    """Each set of values makes of deploy/ what its golden file says; LANLOOM_GOLDEN=rewrite writes it."""
    found = "".join(f"{line}\n" for line in differences(SETS[name]))
    path = GOLDEN / f"{name}.diff"
    if os.environ.get("LANLOOM_GOLDEN") == "rewrite":
        path.write_text(found)
    assert path.read_text() == found


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"image": {"tagg": "1"}}, r"tagg.*\$\.image"),
        ({"image": {"digest": "sha256:1"}}, r"\$\.image\.digest"),
        ({"mgmtVlan": 4095}, r"\$\.mgmtVlan"),
        ({"agent": {"features": ["lan"]}}, r"\$\.agent\.features"),
        ({"paths": {"cniBin": "opt"}}, r"\$\.paths\.cniBin"),
        *(
            ({"image": {"repository": name}}, r"\$\.image\.repository")
            for name in (
                "a: b",
                "lanloom:0.2.0",
                "registry.example/lanloom:0.2.0",
                "https://registry.example/lanloom",
                "registry.example/lanloom/",
                "registry.example/Lanloom",
                "2001:db8::1/lanloom",
                "[2001:db8::1]:5000",
                "lanloom@sha256",
            )
        ),
        ({"console": {"hostNames": ["a\nb"]}}, r"\$\.console\.hostNames"),
        ({"console": {"hostNames": ["fd00::"]}}, r"\$\.console\.hostNames"),
        ({"console": {"hostNames": ["[fd00::1]"]}}, r"\$\.console\.hostNames"),
        ({"manager": None}, "manager"),
    ],
)
def test_values_that_do_not_fit_are_refused(values: dict[str, Any], reason: str) -> None:
    """A value that no template knows, or that means nothing, is refused with its field."""
    with pytest.raises(ValueError, match=reason):
        validated(merged(source.defaults(), values))


@pytest.mark.parametrize("name", ["123", "1e3", "null", "true", "2026-11-30"])
def test_a_name_stays_text(name: str) -> None:
    """The name of a Secret that YAML would take for another type is printed as text."""
    values = merged(source.defaults(), {"console": {"enabled": True, "tlsSecret": name}})
    found = documents(source.manifests(validated(values)))
    (deployment,) = [
        item
        for item in found
        if (item["kind"], item["metadata"]["name"]) == ("Deployment", "lanloom-console")
    ]
    assert deployment["spec"]["template"]["spec"]["volumes"][0]["secret"]["secretName"] == name


@pytest.mark.parametrize("tag", ["", "0.2.0", "1e3"])
@pytest.mark.parametrize(
    "repository",
    [
        "lanloom",
        "registry:5000/a/b_c",
        "Registry.example/lanloom",
        "[2001:db8::1]:5000/lanloom",
        "192.0.2.1/x",
    ],
)
def test_an_image_is_named_as_it_is(repository: str, tag: str) -> None:
    """All containers have the image of the values, by a registry with a name or an address, and are text."""
    given = {"image": {"repository": repository, "tag": tag}, "console": {"enabled": True}}
    values = validated(merged(source.defaults(), given | {"hostUnit": {"enabled": True}}))
    templates = [item["spec"]["template"]["spec"] for item in _workloads(values)]
    images = [
        container["image"]
        for spec in templates
        for container in (*spec["containers"], *spec.get("initContainers", ()))
    ]
    assert len(images) == 7
    assert set(images) == {f"{repository}:{tag or __version__}"}


def _workloads(values: dict[str, Any]) -> list[Any]:
    found = documents(source.manifests(values))
    return [item for item in found if item["kind"] in ("Deployment", "DaemonSet")]


@pytest.mark.parametrize("name", ["console.example.com", "192.0.2.1", "2001:db8::1", "::1"])
def test_a_console_is_reached_by_names_and_addresses(name: str) -> None:
    """A name or an address of either IP version becomes an option of the console as it is."""
    values = merged(source.defaults(), {"console": {"enabled": True, "hostNames": [name]}})
    found = documents(source.manifests(validated(values)))
    (container,) = [
        item["spec"]["template"]["spec"]["containers"][0]
        for item in found
        if (item["kind"], item["metadata"]["name"]) == ("Deployment", "lanloom-console")
    ]
    assert f"--host-name={name}" in container["args"]


def test_the_command_prints_the_manifests() -> None:
    """`lanloom install` prints each object once, namespaces before what is in them."""
    done = CliRunner().invoke(cli, ["install", "--distribution", "k3s"])
    assert done.exit_code == 0, done.output
    found = documents(done.stdout)
    names = [(item["kind"], item["metadata"].get("namespace"), item["metadata"]["name"]) for item in found]
    assert len(names) == len(set(names))
    for position, (_, namespace, _) in enumerate(names):
        assert namespace is None or ("Namespace", None, namespace) in names[:position]
    assert "/var/lib/rancher/k3s/data/cni" in done.stdout
    assert not any(name.endswith(("harvesterhci.io", "cncf.io")) for kind, _, name in names)


@pytest.mark.slow
def test_a_wheel_prints_the_same(tmp_path: Path) -> None:
    """`lanloom install` of a wheel, without the checkout, prints what it prints in the checkout."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=DEPLOY.parent, capture_output=True, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")
    command = [sys.executable, "-m", "lanloom", "install", "--distribution", "openshift"]
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "installed")}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == source.manifests(source.distribution("openshift"))


def test_the_command_prints_the_kinds_of_others_if_asked() -> None:
    """With --include-crds, the kinds of Harvester, Multus and k8slan come, too."""
    done = CliRunner().invoke(cli, ["install", "--include-crds"])
    names = {item["metadata"]["name"] for item in documents(done.stdout)}
    assert "network-attachment-definitions.k8s.cni.cncf.io" in names


def test_the_command_refuses_what_does_not_fit() -> None:
    """A distribution that the chart does not know is refused with those that it knows."""
    done = CliRunner().invoke(cli, ["install", "--distribution", "k4s"])
    assert done.exit_code == 1
    assert "use one of: k3s, microk8s, openshift, rke2, talos" in done.output
