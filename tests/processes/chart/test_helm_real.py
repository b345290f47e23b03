"""The chart, its overlays and `lanloom install` on a real kube-apiserver, from the installation to the end."""

import shutil
import subprocess
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from lanloom import __version__
from lanloom.api.resource import Resource
from lanloom.command import cli
from lanloom.kube.http import HttpClient
from lanloom.kube.loading import load
from lanloom.processes.chart import source
from lanloom.processes.chart.values import merged
from lanloom.processes.definitions import foreign, install, own
from lanloom_lab.assets import default_cache
from tests.harness.servers.helm import CHART, ROOT, Helm, HelmFailed, helm_library
from tests.harness.servers.real import RealServer
from tests.processes.chart.sets import documents, value_sets

pytestmark = [pytest.mark.realserver, pytest.mark.slow, pytest.mark.timeout(900)]

NADS = "network-attachment-definitions.k8s.cni.cncf.io"
NICS = "nics.ipam.lanloom.io"
WEBHOOKS = "validatingwebhookconfiguration"

PATIENCE = 180.0
OF_SERVERS = {
    *(f"v1 Namespace  {name}" for name in ("default", "kube-node-lease", "kube-public", "kube-system")),
    "v1 Service default kubernetes",
}
"""What each kube-apiserver makes by itself, as `everything` has it."""


class Cluster:
    """A kube-apiserver with the controllers that delete, and kubectl."""

    def __init__(self, binaries: Path, server: RealServer) -> None:
        self._kubectl = [str(binaries / "kubectl"), "--kubeconfig", str(server.kubeconfig)]
        self.kubeconfig = server.kubeconfig
        # It has no policy/v1 yet.
        self.values: dict[str, Any] = {"manager": {"disruptionBudget": not server.is_older_than("1.21")}}

    def kubectl(self, *words: str, given: str = "") -> str:
        """The output of one command."""
        done = subprocess.run(
            [*self._kubectl, *words], input=given, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def get(self, *words: str) -> dict[str, Any]:
        """One object."""
        found: dict[str, Any] = yaml.safe_load(self.kubectl("get", "-o", "yaml", *words))
        return found

    def image(self) -> str:
        """The image of the manager."""
        found = self.get("deployment/lanloom-manager", "-n", "lanloom-system")
        return str(found["spec"]["template"]["spec"]["containers"][0]["image"])

    def generation(self, kind: str) -> int:
        """How often the definition of a kind was changed."""
        return int(self.get("crd", kind)["metadata"]["generation"])

    def everything(self) -> set[str]:
        """The names of all objects of all kinds, without Events."""
        kinds = self.kubectl("api-resources", "--verbs=list", "-o", "name").split()
        listed = ",".join(kind for kind in kinds if not kind.startswith("events"))
        line = "{.apiVersion} {.kind} {.metadata.namespace} {.metadata.name}"
        template = f"jsonpath={{range .items[*]}}{line}{{'\\n'}}{{end}}"
        found = self.kubectl("get", "-A", listed, "-o", template).splitlines()
        return {line for line in found if not line.startswith("apiregistration")}

    def expect(self, before: set[str], added: set[str]) -> None:
        """Waits until there is what was there before, and this; kinds that go are listed for a while."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                if self.everything() == before | added:
                    return
            except AssertionError:
                pass
            if time.monotonic() > deadline:
                assert self.everything() == before | added

    def settled(self) -> None:
        """Waits for what a server makes by itself: it begins when it is ready."""
        deadline = time.monotonic() + PATIENCE
        before = set[str]()
        while not before >= OF_SERVERS or self.everything() != before:
            assert time.monotonic() < deadline, OF_SERVERS - before
            before = self.everything()

    def gone(self) -> None:
        """Waits for the namespaces of Lanloom to go."""
        self.kubectl("delete", "namespace", "lanloom-system", "lanloom-bridges", "--ignore-not-found")


@pytest.fixture(scope="module")
def cluster(real_binaries: Path) -> Iterator[Cluster]:
    """A cluster for these tests alone: they install and remove kinds."""
    with RealServer(real_binaries, controllers=("garbagecollector", "namespace")) as server:
        made = Cluster(real_binaries, server)
        made.settled()
        yield made


def helm_at(cluster: Cluster, namespace: str) -> Helm:
    """Helm with a release in this namespace."""
    return Helm(helm_library(default_cache(), print), cluster.kubeconfig, namespace)


def newer_chart(directory: Path) -> Path:
    """The chart with a changed kind."""
    path = directory / "lanloom"
    shutil.copytree(CHART, path)
    kinds = path / "templates/crds.yaml"
    kinds.write_text(kinds.read_text().replace("- ipnic\n", "- nnn\n"))
    return path


def definitions(kinds: Iterable[Resource[Any]]) -> set[str]:
    """The definitions of kinds, as `everything` has them."""
    return {f"apiextensions.k8s.io/v1 CustomResourceDefinition  {kind.full_name}" for kind in kinds}


@pytest.mark.parametrize("namespace", ["default", "lanloom-system"])
def test_a_release_from_its_installation_to_its_end(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    """A release installs, upgrades, goes back, and leaves nothing but the kinds of other projects."""
    before = cluster.everything()
    helm = helm_at(cluster, namespace)
    values = cluster.values | {"crds": {"keep": False}}
    helm.install(values)
    assert cluster.image() == f"lanloom:{__version__}"
    hook = {"name": "a.lanloom.io", "clientConfig": {"url": "https://127.0.0.1:1/"}, "sideEffects": "None"}
    hooks = yaml.safe_dump({"webhooks": [hook | {"admissionReviewVersions": ["v1"]}]})
    cluster.kubectl("patch", WEBHOOKS, "lanloom", "--type=merge", "-p", hooks)
    helm.upgrade(values | {"image": {"tag": "newer"}}, newer_chart(tmp_path))
    assert cluster.image() == "lanloom:newer"
    assert cluster.get("crd", NICS)["spec"]["names"]["shortNames"] == ["nnn"]
    helm.rollback()
    assert cluster.image() == f"lanloom:{__version__}"
    assert cluster.get("crd", NICS)["spec"]["names"]["shortNames"] != ["nnn"]
    # The manager registered it; neither an upgrade nor a rollback takes it away.
    assert [each["name"] for each in cluster.get(WEBHOOKS, "lanloom")["webhooks"]] == ["a.lanloom.io"]
    helm.uninstall()
    cluster.gone()
    cluster.expect(before, definitions(foreign()))


async def test_releases_go_on_after_the_command_for_kinds(cluster: Cluster, tmp_path: Path) -> None:
    """`lanloom crds --apply` changes kinds of a release, and the next upgrade changes them again without a conflict."""
    before = cluster.everything()
    helm, newer = helm_at(cluster, "default"), newer_chart(tmp_path)
    values = cluster.values | {"crds": {"keep": False}}
    helm.install(values)
    async with HttpClient(load(str(cluster.kubeconfig))) as client:
        for _ in range(2):
            helm.upgrade(values, newer)
            assert cluster.get("crd", NICS)["spec"]["names"]["shortNames"] == ["nnn"]
            outcomes = {each.name: each.outcome for each in await install(client)}
            assert outcomes[NICS] == "updated"
            assert cluster.get("crd", NICS)["spec"]["names"]["shortNames"] != ["nnn"]
    helm.uninstall()
    cluster.gone()
    # The kinds of other projects stay, and were there before or were made here.
    cluster.expect(before, definitions(foreign()))


async def test_kinds_of_others_and_objects_of_users_survive(cluster: Cluster) -> None:
    """A release never changes a kind of Multus, and by default it leaves Lanloom's kinds and objects behind.

    Another release leaves them alone if a value says so, and else refuses to take them.
    """
    theirs = yaml.safe_load((ROOT / f"deploy/crds/others/{NADS}.yaml").read_text())
    theirs["spec"]["names"]["categories"] = ["theirs"]
    cluster.kubectl("apply", "-f", "-", given=yaml.safe_dump(theirs))
    before = cluster.everything()
    generation = cluster.generation(NADS)
    helm = helm_at(cluster, "default")
    helm.install(cluster.values)
    async with HttpClient(load(str(cluster.kubeconfig))) as client:
        outcomes = {each.name: each.outcome for each in await install(client)}
    assert {name for name, outcome in outcomes.items() if outcome != "unchanged"} == {NADS}
    assert outcomes[NADS] == "left alone"
    helm.upgrade(cluster.values)
    helm.rollback()
    version = cluster.get("crd", "networks.ipam.lanloom.io")["spec"]["versions"][0]["name"]
    network = {"apiVersion": f"ipam.lanloom.io/{version}", "kind": "Network", "metadata": {"name": "kept"}}
    spec = {"subnets": [{"cidr": "192.0.2.0/24"}]}
    cluster.kubectl("create", "-f", "-", given=yaml.safe_dump(network | {"spec": spec}))
    helm.uninstall()
    cluster.gone()
    kept = f"ipam.lanloom.io/{version} Network  kept"
    cluster.expect(before, {*definitions((*own(), *foreign())), kept})
    helm.install(cluster.values)
    assert cluster.get("networks.ipam.lanloom.io", "kept")["spec"] == spec
    assert cluster.generation(NADS) == generation
    helm.uninstall()
    cluster.gone()
    other = helm_at(cluster, "kube-system")
    with pytest.raises(HelmFailed, match="cannot be imported into the current release"):
        other.install(cluster.values)
    other.install(cluster.values | {"crds": {"install": False}})
    other.uninstall()
    cluster.gone()
    assert cluster.get("networks.ipam.lanloom.io", "kept")["spec"] == spec
    cluster.kubectl("delete", "crd", *(kind.full_name for kind in own()))
    cluster.expect(before, definitions(foreign()))


def test_what_the_command_prints_can_be_applied_again_and_deleted(cluster: Cluster, tmp_path: Path) -> None:
    """`kubectl apply` of `lanloom install` changes nothing the second time, and `kubectl delete` leaves nothing."""
    before = cluster.everything()
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump(cluster.values))
    done = CliRunner().invoke(cli, ["install", "--values", str(values), "-o", "yaml"])
    assert done.exit_code == 0, done.output
    first = cluster.kubectl("apply", "-f", "-", given=done.stdout).splitlines()
    assert {line.split()[-1] for line in first} == {"created"}
    second = cluster.kubectl("apply", "-f", "-", given=done.stdout).splitlines()
    assert [line for line in second if not line.endswith(" unchanged")] == []
    # The namespace is the first, and what is in it may be gone before kubectl asks for it.
    cluster.kubectl("delete", "--ignore-not-found", "-f", "-", given=done.stdout)
    cluster.expect(before, set())


def written(cluster: Cluster, item: dict[str, Any]) -> dict[str, Any]:
    """An object of a manifest as the server has it."""
    kind, meta = item["kind"], item["metadata"]
    return cluster.get(kind, meta["name"], "-n", meta.get("namespace", "default"))


def changed(wanted: Any, found: Any, path: str) -> Iterator[str]:
    """The fields of a manifest that the server has in another way, or not."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        for key, value in wanted.items():
            yield from changed(value, found.get(key), f"{path}.{key}")
    elif isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        for number, pair in enumerate(zip(wanted, found, strict=True)):
            yield from changed(*pair, f"{path}[{number}]")
    elif wanted != found:
        yield f"{path}: {wanted} → {found}"


@pytest.mark.parametrize("name", ["default", "everything", "pods"])
def test_a_server_keeps_what_the_chart_states(cluster: Cluster, name: str) -> None:
    """What tools for GitOps compare stays as it was applied, and another server-side apply writes nothing."""
    before = cluster.everything()
    values = merged(merged(value_sets()[name], cluster.values), {"monitoring": {"enabled": False}})
    stream = source.manifests(values)
    apply = ("apply", "--server-side", "-f", "-")
    cluster.kubectl(*apply, given=stream)
    first = [written(cluster, item) for item in documents(stream)]
    cluster.kubectl(*apply, given=stream)
    second = [written(cluster, item) for item in documents(stream)]
    for wanted, once, twice in zip(documents(stream), first, second, strict=True):
        title = f"{wanted['kind']} {wanted['metadata']['name']}"
        assert list(changed(wanted, once, title)) == []
        assert once["metadata"].get("generation") == twice["metadata"].get("generation"), title
        assert list(changed(wanted, twice, title)) == []
    cluster.kubectl("delete", "--ignore-not-found", "-f", "-", given=stream)
    cluster.expect(before, set())


@pytest.mark.parametrize("name", source.distributions())
def test_overlays_are_what_the_chart_makes(real_binaries: Path, name: str) -> None:
    """Kustomize makes of each overlay the objects that the chart makes for the distribution."""
    command = [str(real_binaries / "kubectl"), "kustomize", str(ROOT / "overlays" / name)]
    theirs = documents(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    ours = documents(source.manifests(source.distribution(name)))
    for item in ours:
        if item["metadata"].get("annotations", {}).pop("helm.sh/resource-policy", None):
            del item["metadata"]["annotations"]
    assert sorted(theirs, key=name_of) == sorted(ours, key=name_of)


def name_of(item: dict[str, Any]) -> tuple[str, str, str]:
    """The kind, namespace and name of an object."""
    return item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"]
