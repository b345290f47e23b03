"""Which cluster, as which user, and in which namespace: the options that every command has, and what they change."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner

from lanloom.api.core import NAMESPACES
from lanloom.api.ipam import NICS
from lanloom.api.lan import LANS
from lanloom.cli.options import cluster_options
from lanloom.command import cli
from lanloom.kube.ports import Client
from tests.cli.cluster import Cluster, served, typing

OPTIONS = {
    *("--kubeconfig", "--context", "--cluster", "--user", "--namespace", "--request-timeout"),
    *("--as", "--as-uid", "--as-group"),
}

PROCESSES = {"agent", "manager", "serve", "doctor"}
"""Commands that read one file: they run in a pod, or look at a machine."""


def commands(group: click.Command, *names: str) -> Iterator[tuple[str, click.Command]]:
    """All commands below a group, by their words; not those of the lab, which has its own cluster."""
    if not isinstance(group, click.Group):
        yield " ".join(names), group
        return
    context = click.Context(group)
    for name in group.list_commands(context):
        if (found := group.get_command(context, name)) is not None and name != "lab":
            yield from commands(found, *names, name)


def options(command: click.Command) -> set[str]:
    """All names of a command's options."""
    return {name for parameter in command.params for name in parameter.opts}


TALKING = [
    pytest.param(command, id=name)
    for name, command in commands(cli)
    if "--kubeconfig" in options(command) and name not in PROCESSES
]


@pytest.mark.parametrize("command", TALKING)
def test_every_command_has_the_options(command: click.Command) -> None:
    """Every command that talks to a cluster takes the same options, and none of its own is called like one."""
    names = [name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)]
    assert set(names) >= OPTIONS
    assert len(names) == len(set(names))


@pytest.fixture(scope="module", name="cluster")
def _cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A server with LANs in two namespaces."""
    with served(tmp_path_factory.mktemp("cluster")) as made:
        made.do(_fill)
        yield made


async def _fill(client: Client) -> None:
    await client.create(NAMESPACES, {"metadata": {"name": "shop"}})
    names = (("default", "blue"), ("shop", "red"), ("shop", "blue"), ("shop", "green"))
    for number, (namespace, name) in enumerate(names):
        spec = {
            "ns": f"ns{number}",
            "bridge": "br",
            "vni": 100 + number,
            "vxlan": f"vx{number}",
            "spokes": ["a"],
        }
        labels = {"team": "a"} if number < 2 else {}
        await client.create(LANS, {"metadata": {"name": name, "labels": labels}, "spec": spec}, namespace)


def changed(cluster: Cluster, path: Path, **user: Any) -> str:
    """A kubeconfig of the cluster whose context is in the namespace `shop`, with more of its user."""
    content = yaml.safe_load(cluster.kubeconfig.read_text())
    content["contexts"][0]["context"]["namespace"] = "shop"
    content["users"][0]["user"] |= user
    path.write_text(yaml.safe_dump(content))
    return str(path)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), ["default/blue"]),
        (("-n", "shop"), ["shop/blue", "shop/green", "shop/red"]),
        (("--namespace", "ns/shop"), ["shop/blue", "shop/green", "shop/red"]),
        (("-A",), ["default/blue", "shop/blue", "shop/green", "shop/red"]),
        (("-n", "shop", "-A"), ["default/blue", "shop/blue", "shop/green", "shop/red"]),
        (("-n", "none"), []),
    ],
)
def test_lists(words: tuple[str, ...], expected: list[str], cluster: Cluster) -> None:
    """A list shows one namespace, or all with -A."""
    done = cluster.lanloom("lan", "list", "-o", "namespace,name", "--no-headers", "--separator", "/", *words)
    assert done.output.split() == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("lan", "list", "-A", "-l", "team=a"), "default/blue shop/red"),
        (("lan", "list", "-l", "team=a"), "default/blue"),
        (("lan", "list", "-A", "-l", "team!=a"), "shop/blue shop/green"),
        (("lan", "list", "-A", "--field-selector", "metadata.name=blue"), "default/blue shop/blue"),
        (("lan", "list", "-A", "--field-selector", "metadata.name=blue", "-l", "team=a"), "default/blue"),
    ],
)
def test_selectors(words: tuple[str, ...], expected: str, cluster: Cluster) -> None:
    """A list shows what the selectors choose, in its namespace."""
    done = cluster.lanloom(*words, "-o", "namespace,name", "--no-headers", "--separator", "/")
    assert done.output.split() == expected.split()


def test_selectors_of_networks(cluster: Cluster) -> None:
    """Networks are selected without an event loop, too."""
    for name in ("net1", "net2"):
        cluster.lanloom("network", "add", "--subnet", "cidr=192.0.2.0/24", name)
    done = cluster.lanloom(
        "network", "list", "--field-selector", "metadata.name=net2", "-o", "name", "--no-headers"
    )
    assert done.output.split() == ["net2"]
    cluster.clear()


@pytest.mark.parametrize("words", [("dummy", "list"), ("vlan", "list")], ids=" ".join)
def test_selectors_of_other_lists(words: tuple[str, ...], cluster: Cluster) -> None:
    """All lists take selectors."""
    done = cluster.lanloom(*words, "-l", "team=a", "-o", "json")
    assert (done.exit_code, done.output) == (0, "[]\n")


def test_an_empty_namespace(cluster: Cluster) -> None:
    """An empty list of one namespace says so, and how to see the others."""
    done = cluster.lanloom("lan", "list", "-n", "none")
    assert "There is no LAN in the namespace none. To list those of all namespaces, use -A." in done.output


def test_the_namespace_of_the_context(cluster: Cluster, tmp_path: Path) -> None:
    """Without -n, the namespace is that of the context: for lists, names, and new objects."""
    kubeconfig = ("--kubeconfig", changed(cluster, tmp_path / "config"))
    names = cluster.lanloom("lan", "list", "-o", "jsonpath={.items[*].name}", *kubeconfig).output.split()
    assert names == ["blue", "green", "red"]
    assert cluster.lanloom("lan", "show", "blue", *kubeconfig).output.startswith("shop/blue: ")
    assert cluster.lanloom("lan", "show", "blue", "-n", "default", *kubeconfig).output.startswith(
        "default/blue: "
    )
    assert "LAN shop/red" in cluster.lanloom("why-not-deleted", "lan/red", *kubeconfig).output
    cluster.lanloom("instance", "add", "--net", "0:mode=bridged,link=br1", "--no-wait", "inst1", *kubeconfig)
    made = cluster.do(lambda client: client.list(NICS)).items
    assert [item.metadata.namespace for item in made] == ["shop"]
    cluster.clear()


@pytest.mark.parametrize("how", ["kubeconfig", "options"])
@pytest.mark.parametrize(
    "words",
    [
        ("network", "list"),
        ("network", "add", "--subnet", "cidr=192.0.2.0/24", "net1"),
        ("instance", "add", "--net", "0:mode=bridged,link=br1", "--no-wait", "inst1"),
        ("lan", "list"),
        ("vlan", "list"),
        ("crds",),
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_another_user(words: tuple[str, ...], how: str, cluster: Cluster, tmp_path: Path) -> None:
    """A command that acts as a user without rights has none, whether the kubeconfig says so or an option."""
    before = cluster.state()
    if how == "kubeconfig":
        more: tuple[str, ...] = ("--kubeconfig", changed(cluster, tmp_path / "config", **{"as": "jane"}))
    else:
        more = ("--as", "jane", "--as-group", "dev")
    done = cluster.lanloom(*words, *more)
    assert done.exit_code == 1
    assert "jane" in done.output
    assert cluster.state() == before


PLUGIN = """#!/bin/sh
echo '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "TOKEN"}}'
"""


@pytest.mark.parametrize(
    "words", [("network", "list"), ("instance", "list", "-A"), ("lan", "list", "-A")], ids=" ".join
)
def test_a_program_for_credentials(words: tuple[str, ...], cluster: Cluster, tmp_path: Path) -> None:
    """All lists work with the credentials that a program prints, and in the context's namespace."""
    path = Path(changed(cluster, tmp_path / "config"))
    content = yaml.safe_load(path.read_text())
    token = content["users"][0]["user"].pop("token")
    (tmp_path / "plugin").write_text(PLUGIN.replace("TOKEN", token))
    (tmp_path / "plugin").chmod(0o755)
    version = "client.authentication.k8s.io/v1"
    content["users"][0]["user"]["exec"] = {
        "apiVersion": version,
        "command": "./plugin",
        "interactiveMode": "Never",
    }
    path.write_text(yaml.safe_dump(content))
    done = cluster.lanloom(*words, "-o", "json", "--kubeconfig", str(path))
    assert done.output == cluster.lanloom(*words, "-o", "json").output


@pytest.mark.parametrize(
    ("given", "seconds"),
    [("5", 5.0), ("0", 0.0), ("1m30s", 90.0), ("500ms", 0.5), ("1.5s", 1.5), ("2h", 7200.0)],
)
def test_durations(given: str, seconds: float) -> None:
    """--request-timeout takes seconds, or numbers with units."""

    @click.command()
    @cluster_options
    def probe(cluster: Any) -> None:
        click.echo(cluster.request_timeout)

    assert CliRunner().invoke(probe, ["--request-timeout", given]).output == f"{seconds}\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--request-timeout", "soon"), "'soon' is no duration"),
        (("--request-timeout", "5 s"), "'5 s' is no duration"),
        (("-n", "Shop"), "'Shop' can't be a namespace"),
        (("-n", "../x"), "'../x' can't be a namespace"),
    ],
)
def test_malformed_options(words: tuple[str, ...], message: str) -> None:
    """An option that can't be right is refused before anything is read."""
    done = CliRunner().invoke(cli, ["lan", "list", *words])
    assert done.exit_code == 2
    assert message in done.output


@pytest.mark.parametrize(
    ("option", "kind"), [("--context", "contexts"), ("--cluster", "clusters"), ("--user", "users")]
)
def test_completion_of_the_kubeconfig(option: str, kind: str, cluster: Cluster) -> None:
    """Contexts, clusters and users of the kubeconfig are completed."""
    names = [item["name"] for item in yaml.safe_load(cluster.kubeconfig.read_text())[kind]]
    assert cluster.offered(f"lanloom lan list {option} {names[0][:1]}") == [f"plain,{name}" for name in names]


def test_completion_of_namespaces(cluster: Cluster) -> None:
    """Namespaces of the cluster are completed, as the user that the line names."""
    assert cluster.offered("lanloom lan list -n sh") == ["plain,shop"]
    assert cluster.lanloom(environment=typing("lanloom lan list --as jane -n sh")).output == "\n"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("-o", "name"), "lan.lan.k8slan.io/blue\nlan.lan.k8slan.io/green\nlan.lan.k8slan.io/red\n"),
        (("-o", "jsonpath={.items[*].name}"), "blue green red"),
        (("-o", "jsonpath={.items[*].name}", "--sort-by", "{.vni}"), "red blue green"),
        (("-o", "jsonpath={.items[*].name}", "--sort-by", "vni"), "red blue green"),
        (
            ("-o", "custom-columns=NAME:.name,VNI:.vni"),
            "NAME    VNI\nblue    102\ngreen   103\nred     101\n",
        ),
        (("-o", "custom-columns=NAME:.name", "--no-headers"), "blue\ngreen\nred\n"),
        (("-o", "name,vni", "--no-headers", "--separator", ":"), "blue:102\ngreen:103\nred:101\n"),
    ],
)
def test_formats(words: tuple[str, ...], expected: str, cluster: Cluster) -> None:
    """Lists have kubectl's formats and order."""
    assert cluster.lanloom("lan", "list", "-n", "shop", *words).output == expected


def test_wide_lists(cluster: Cluster) -> None:
    """A wide list has all fields, also those that the usual one lacks."""
    usual, wide = (
        cluster.lanloom("lan", "list", "-n", "shop", "-o", name).output for name in ("table", "wide")
    )
    assert "Replication" in wide
    assert "Replication" not in usual
    assert max(map(len, usual.splitlines())) <= 80


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-o", "jsonpath"), "jsonpath needs a template"),
        (("-o", "jsonpath={.items[*}"), "is malformed"),
        (("-o", "custom-columns=NAME"), "custom columns are TITLE:PATH"),
        (("-o", "nothing"), "formats are: table, json, yaml, wide, name, jsonpath, custom-columns"),
        (("-o", "name", "--no-headers"), "apply to a table only"),
        (("--sort-by", "nothing"), "'nothing' is not a field"),
        (("--sort-by", "{.a[}"), "is malformed"),
    ],
)
def test_malformed_formats(words: tuple[str, ...], message: str, cluster: Cluster) -> None:
    """A format or an order that can't be is refused as wrong usage."""
    done = cluster.lanloom("lan", "list", "-n", "shop", *words, columns=300)
    assert done.exit_code == 2
    assert message in done.output
