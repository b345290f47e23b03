"""The manifests in deploy/ against the programs that they start. `test_deploy_real` applies them to a real server."""

from pathlib import Path

import pytest

from lanloom.command import cli
from lanloom.console.catalogue import pages as console_pages
from lanloom.features import FEATURES
from lanloom.runtime.probes import pages, parse_address
from lanloom.runtime.sockets import EVERYWHERE
from tests.processes.deployed import (
    ROOT,
    Raw,
    documents,
    pod,
)

PROCESSES = ("manager", "agent", "lan")
CONFINED = ("manager", "agent")
"""Without the agent of LANs, whose mounts Kubernetes gives to privileged containers only."""


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


def test_the_console_reads_what_pages_are_made_of_and_writes_nothing() -> None:
    """The console may read each kind of its pages, and has no right to write."""
    (role,) = [
        item
        for item in documents()
        if item["kind"] == "ClusterRole" and item["metadata"]["name"] == "lanloom-console"
    ]
    allowed = {
        (group, plural)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for plural in rule["resources"]
    }
    kinds = {(kind.group, kind.plural) for page in console_pages(FEATURES) for kind in page.kinds}
    assert kinds <= allowed
    assert all(rule["verbs"] == ["get", "list", "watch"] for rule in role["rules"])


@pytest.mark.parametrize("process", PROCESSES)
def test_the_programs_understand_their_arguments(process: str) -> None:
    """The command line of a container is one that its program accepts, with addresses to show its metrics at."""
    assert [parse_address(item)[1] for item in options(process)["metrics_address"]]


def test_the_console_understands_its_arguments(tmp_path: Path) -> None:
    """The console has users log in, by TLS, under the name of its Service, with the certificate that is mounted."""
    (only,) = pod("console")["spec"]["containers"]
    (mount,) = only["volumeMounts"]
    for name in ("tls.crt", "tls.key"):
        (tmp_path / name).touch()
    words = [word.replace(f"{mount['mountPath']}/", f"{tmp_path}/") for word in only["args"]]
    context = cli.make_context("lanloom", words)
    command = cli.get_command(context, "console")
    assert command is not None
    given = command.make_context("console", words[1:]).params
    assert (given["login"], given["names"]) == (True, ("lanloom-console.lanloom-system.svc",))
    assert given["tls_certificate"] == tmp_path / "tls.crt"
    assert parse_address(given["address"]) == (EVERYWHERE, only["ports"][0]["containerPort"])


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
        assert (asked.get("host", EVERYWHERE), ports[asked["port"]]) in listening


@pytest.mark.parametrize("process", PROCESSES)
def test_metrics_are_found(process: str) -> None:
    """A pod's annotations name the port and the page of its metrics."""
    found = pod(process)["metadata"]["annotations"]
    (port,) = [item["containerPort"] for item in container(process)["ports"] if item["name"] == "metrics"]
    assert found["prometheus.io/scrape"] == "true"
    assert found["prometheus.io/port"] == str(port)
    assert found["prometheus.io/path"] == "/metrics"


@pytest.mark.parametrize("process", CONFINED)
def test_processes_have_no_more_rights_than_they_need(process: str) -> None:
    """Only the agent gets a capability, and neither may write to its own file system or gain rights."""
    context = container(process)["securityContext"]
    assert context["capabilities"]["drop"] == ["ALL"]
    assert context["capabilities"].get("add", []) == (["NET_ADMIN"] if process == "agent" else [])
    assert (context["allowPrivilegeEscalation"], context["readOnlyRootFilesystem"]) == (False, True)


@pytest.mark.parametrize("process", CONFINED)
def test_processes_run_under_the_runtime_s_seccomp_profile(process: str) -> None:
    """Every container of Lanloom's has the runtime's default seccomp profile, by its own or by its pod's context."""
    contexts = (container(process)["securityContext"], pod(process)["spec"].get("securityContext", {}))
    assert {"type": "RuntimeDefault"} in [context.get("seccompProfile") for context in contexts]


def test_the_agents_share_the_features() -> None:
    """Each feature with a part on nodes runs in one of the two agents."""
    parts = [feature.name for feature in FEATURES if feature.agent]
    assert sorted((*options("agent")["names"], *options("lan")["names"])) == sorted(parts)


def test_the_agent_of_lans_shares_its_mounts_with_the_host() -> None:
    """What it mounts below /run/netns is the host's, and each path is the host's own."""
    mounts = {item["mountPath"]: item for item in container("lan")["volumeMounts"]}
    paths = {item["name"]: item["hostPath"]["path"] for item in pod("lan")["spec"]["volumes"]}
    assert mounts["/run/netns"]["mountPropagation"] == "Bidirectional"
    same = {path for path, item in mounts.items() if paths[item["name"]] == path}
    plugins = str(options("lan")["device_plugins"])
    assert same >= {"/run/netns", "/dev", plugins, "/var/lib/lanloom/lan", "/run/lanloom"}
    assert paths[mounts[str(options("lan")["cni_bin"])]["name"]] == "/opt/cni/bin"
    assert container("lan")["securityContext"]["privileged"]


def test_the_agent_asks_for_root_by_itself() -> None:
    """The image runs as the user `nobody` unless a pod says otherwise: the agent says it."""
    assert container("agent")["securityContext"]["runAsUser"] == 0
    lines = (ROOT / "deploy/Dockerfile").read_text().splitlines()
    assert [line for line in lines if line.startswith("USER")] == ["USER 65534:65534"]


def test_the_base_image_is_given_by_its_digest() -> None:
    """The image is built on what a digest names; a build without one fails, and the header says how to give it."""
    lines = (ROOT / "deploy/Dockerfile").read_text().splitlines()
    assert [line.split()[1] for line in lines if line.startswith("FROM")] == ["${BASE}"]
    assert any("@sha256:*)" in line for line in lines)
    assert any(line.startswith("#") and "--build-arg BASE=" in line for line in lines)


def test_docker_gets_what_it_copies_and_no_more() -> None:
    """Everything is ignored but what the image is made of; a checkout's bytecode and history stay out of it."""
    rules = (ROOT / ".dockerignore").read_text().splitlines()
    allowed = {rule.removeprefix("!") for rule in rules if rule.startswith("!")}
    lines = (ROOT / "deploy/Dockerfile").read_text().splitlines()
    copied = [line.split()[1] for line in lines if line.startswith("COPY")]
    assert "*" in rules and "**/__pycache__" in rules
    assert [path for path in copied if not any(f"{path}/".startswith(f"{each}/") for each in allowed)] == []


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


def test_the_manager_creates_no_webhook_configurations() -> None:
    """The manager may get and patch the two configurations by their name; deploy/webhooks.yaml brings them, empty."""
    kinds = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"]
    rules = [rule for item in documents() for rule in item.get("rules", ()) if kinds[0] in rule["resources"]]
    group = ["admissionregistration.k8s.io"]
    verbs = {"apiGroups": group, "resources": kinds, "resourceNames": ["lanloom"], "verbs": ["get", "patch"]}
    assert rules == [verbs]
    installed = [item for item in documents() if item["kind"].endswith("WebhookConfiguration")]
    assert [item["metadata"]["name"] for item in installed] == ["lanloom", "lanloom"]
    assert not any("webhooks" in item for item in installed)


def test_the_namespaces_admit_pods_of_the_host_s_network() -> None:
    """Where Pod Security is enforced, agents and the pods that keep bridges are admitted, each to their namespace."""
    levels = {
        item["metadata"]["name"]: item["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
        for item in documents()
        if item["kind"] == "Namespace"
    }
    assert levels == {"lanloom-system": "privileged", "lanloom-bridges": "privileged"}


def test_users_get_no_rights_of_processes() -> None:
    """Roles go to Lanloom's manager, agents and console alone; only tenants' are aggregated to users' roles."""
    subjects = [subject for item in documents() for subject in item.get("subjects", ())]
    assert {(item.get("namespace", ""), item["name"]) for item in subjects} == {
        ("lanloom-system", "lanloom-manager"),
        ("lanloom-system", "lanloom-agent"),
        ("lanloom-system", "lanloom-console"),
        ("", "system:lanloom:agents"),
    }
    roles = [item for item in documents() if item["kind"] in ("Role", "ClusterRole")]
    labelled = {item["metadata"]["name"] for item in roles if item["metadata"].get("labels")}
    assert labelled == {"lanloom-view", "lanloom-edit", "lanloom-admin"}


def test_the_manager_changes_no_workload_of_its_own_namespace() -> None:
    """It may create and patch DaemonSets only where nothing but the daemons of isolated networks runs."""
    roles = {
        item["metadata"].get("namespace", ""): rule["verbs"]
        for item in documents()
        if item["kind"] in ("Role", "ClusterRole") and item["metadata"]["name"] == "lanloom-manager"
        for rule in item["rules"]
        if "daemonsets" in rule["resources"]
    }
    assert roles == {
        "": ["get", "list", "watch"],
        "lanloom-system": ["delete"],
        "lanloom-bridges": ["get", "create", "patch", "delete"],
    }
    there = [item for item in documents() if item["metadata"].get("namespace") == "lanloom-bridges"]
    assert {item["metadata"]["name"] for item in there} == {"lanloom-manager", "lanloom-agent"}
    agents = [
        item for item in there if item["metadata"]["name"] == "lanloom-agent" and item["kind"] == "Role"
    ]
    assert [rule["resources"] for item in agents for rule in item["rules"]] == [["leases"]]
