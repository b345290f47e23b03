"""The manifests in deploy/ against the programs that they start. `test_deploy_real` applies them to a real server."""

from pathlib import Path

import pytest

from lanloom.app.metrics.probes import pages, parse_address
from lanloom.cli.__main__ import cli
from tests.app.deployed import Raw, documents, pod

PROCESSES = ("manager", "agent")


def container(process: str) -> Raw:
    """The only container of a process."""
    (only,) = pod(process)["spec"]["containers"]
    return dict(only)


def options(process: str) -> Raw:
    """What the command line makes of the container's arguments."""
    name, *words = container(process)["args"]
    words = [word.replace("$(HOST_IP)", "10.0.0.1").replace("$(NODE_NAME)", "node1") for word in words]
    context = cli.make_context("lanloom", [name, *words], resilient_parsing=False)
    command = cli.get_command(context, name)
    assert command is not None
    return command.make_context(name, words).params


@pytest.mark.parametrize("process", PROCESSES)
def test_the_programs_understand_their_arguments(process: str) -> None:
    """The command line of a container is one that its program accepts, with addresses to show its metrics at."""
    assert [parse_address(item)[1] for item in options(process)["metrics_address"]]


@pytest.mark.parametrize("process", PROCESSES)
def test_probes_ask_for_pages_that_are_served(process: str) -> None:
    """Each probe names the port at which the program listens, and a page that it has."""
    each = container(process)
    ports = {item["name"]: item["containerPort"] for item in each["ports"]}
    listening = {parse_address(item) for item in options(process)["metrics_address"]}
    served = pages(tuple, bytes)
    for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
        asked = each[kind]["httpGet"]
        assert asked["path"] == ("/readyz" if kind == "readinessProbe" else "/healthz")
        assert asked["path"] in served
        assert asked.get("scheme", "HTTP") == "HTTP"
        assert (asked.get("host", "0.0.0.0"), ports[asked["port"]]) in listening


@pytest.mark.parametrize("process", PROCESSES)
def test_metrics_are_found(process: str) -> None:
    """A pod's annotations name the port and the page of its metrics."""
    found = pod(process)["metadata"]["annotations"]
    (port,) = [item["containerPort"] for item in container(process)["ports"] if item["name"] == "metrics"]
    assert found["prometheus.io/scrape"] == "true"
    assert found["prometheus.io/port"] == str(port)
    assert found["prometheus.io/path"] == "/metrics"


@pytest.mark.parametrize("process", PROCESSES)
def test_processes_have_no_more_rights_than_they_need(process: str) -> None:
    """Only the agent gets a capability, and neither may write to its own file system or gain rights."""
    context = container(process)["securityContext"]
    assert context["capabilities"]["drop"] == ["ALL"]
    assert context["capabilities"].get("add", []) == (["NET_ADMIN"] if process == "agent" else [])
    assert (context["allowPrivilegeEscalation"], context["readOnlyRootFilesystem"]) == (False, True)


def test_the_cni_plugin_reaches_its_agent() -> None:
    """The agent puts the plugin where runtimes look for it on the host, and listens where the plugin looks for it."""
    mounts = {item["mountPath"]: item["name"] for item in container("agent")["volumeMounts"]}
    paths = {item["name"]: item["hostPath"]["path"] for item in pod("agent")["spec"]["volumes"]}
    given = options("agent")
    assert paths[mounts[str(given["cni_bin"])]] == "/opt/cni/bin"
    directory = str(Path(given["cni_socket"]).parent)
    assert paths[mounts[directory]] == directory


def test_selectors_select_the_pods() -> None:
    """Service, disruption budget and monitors select pods by labels that the pods have."""
    templates = [item["spec"]["template"] for item in documents() if "template" in item.get("spec", {})]
    labels = [template["metadata"]["labels"] for template in templates]
    for item in documents():
        selector = item.get("spec", {}).get("selector", {})
        chosen = {rule["key"]: rule["values"] for rule in selector.get("matchExpressions", ())}
        exact = {} if chosen else selector.get("matchLabels", selector)
        wanted = {**{key: [value] for key, value in exact.items()}, **chosen}
        for key, values in wanted.items():
            assert set(values) <= {has.get(key) for has in labels}, item["metadata"]["name"]


def test_the_namespace_admits_pods_of_the_host_s_network() -> None:
    """Where Pod Security is enforced, agents and the pods that keep bridges are admitted to Lanloom's namespace."""
    (namespace,) = [item for item in documents() if item["kind"] == "Namespace"]
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "privileged"
