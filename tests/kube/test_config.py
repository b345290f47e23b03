"""Where a client finds its server and its credentials, and what it says when it can't."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from lanloom.kube.config import ClusterConfig, ExecPlugin, Impersonation
from lanloom.kube.errors import ConfigError
from lanloom.kube.kubeconfigfields import Overrides
from lanloom.kube.loading import in_cluster, load

GOLDEN = Path(__file__).parents[1] / "golden/kube/kubeconfigs.yaml"
CASES: list[dict[str, Any]] = yaml.load(GOLDEN.read_text(), yaml.CSafeLoader)

SIMPLE = """
current-context: main
clusters: [{{name: c, cluster: {{server: "https://{}"}}}}]
contexts: [{{name: main, context: {{cluster: c}}}}]
"""


def _write(directory: Path, files: dict[str, Any]) -> list[Path]:
    """Writes a case's files; those of them that are kubeconfigs."""
    kubeconfigs = []
    for name, content in files.items():
        path = directory / name
        path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
        if "." not in name:
            kubeconfigs.append(path)
    return kubeconfigs


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"])
def test_kubeconfigs(case: dict[str, Any], tmp_path: Path) -> None:
    """Each kubeconfig of the golden file gives its configuration or its error."""
    files = _write(tmp_path, case["files"])
    environment = {"KUBECONFIG": ":".join(str(path) for path in files)}
    if "error" in case:
        with pytest.raises(ConfigError) as caught:
            load(environment=environment)
        assert str(caught.value) == case["error"].replace("DIR", str(tmp_path))
    else:
        found = msgspec.structs.asdict(load(environment=environment))
        expected = msgspec.structs.asdict(ClusterConfig(server="")) | case["expected"]
        for field in ("ca", "client_certificate", "client_key"):
            expected[field] = expected[field].encode() if expected[field] else b""
        expected["token_file"] = expected["token_file"].replace("DIR", str(tmp_path))
        assert found == expected


def _simple(path: Path, server: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(SIMPLE.format(server))
    return str(path)


def test_which_configuration_holds(tmp_path: Path) -> None:
    """A path wins over $KUBECONFIG, that over ~/.kube/config, and that over the pod's service account."""
    given = _simple(tmp_path / "given", "given")
    listed = _simple(tmp_path / "listed", "listed")
    _simple(tmp_path / ".kube/config", "home")
    environment = {"HOME": str(tmp_path), "KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    assert load(given, environment=environment | {"KUBECONFIG": listed}).server == "https://given"
    assert load(environment=environment | {"KUBECONFIG": listed}).server == "https://listed"
    assert load(environment=environment).server == "https://home"


def test_missing_files_of_several(tmp_path: Path) -> None:
    """Files of $KUBECONFIG that are missing are passed over unless all are, outside of a pod."""
    listed = _simple(tmp_path / "listed", "listed")
    missing = str(tmp_path / "missing")
    assert load(environment={"KUBECONFIG": f"{missing}:{listed}:"}).server == "https://listed"
    with pytest.raises(ConfigError, match=r"\$KUBECONFIG names .*missing, where no cluster is configured"):
        load(environment={"KUBECONFIG": missing})


def test_no_configuration(tmp_path: Path) -> None:
    """Without any configuration the error says how to give one."""
    with pytest.raises(ConfigError, match="set KUBECONFIG or pass --kubeconfig FILE"):
        load(environment={"HOME": str(tmp_path)})


def test_a_path_that_is_missing(tmp_path: Path) -> None:
    """A kubeconfig that is named must be there."""
    with pytest.raises(ConfigError, match=r"can't read .*/nothing: No such file"):
        load(str(tmp_path / "nothing"))


def test_a_file_that_is_not_yaml(tmp_path: Path) -> None:
    """A file that is not YAML is named, with the place of the error."""
    path = tmp_path / "config"
    path.write_text("a: [1")
    with pytest.raises(ConfigError, match=f"{path} is not YAML: (?s:.*)line 1"):
        load(str(path))


def test_in_a_pod(tmp_path: Path) -> None:
    """A pod's configuration comes from its service account and environment; the token is read later, by file."""
    for name, text in {"ca.crt": "CA", "namespace": "harvester-system\n", "token": "t"}.items():
        (tmp_path / name).write_text(text)
    environment = {"KUBERNETES_SERVICE_HOST": "10.53.0.1", "KUBERNETES_SERVICE_PORT": "8443"}
    assert in_cluster(environment, tmp_path) == ClusterConfig(
        server="https://10.53.0.1:8443",
        ca=b"CA",
        token_file=str(tmp_path / "token"),
        namespace="harvester-system",
    )
    assert in_cluster({"KUBERNETES_SERVICE_HOST": "fd00::1"}, tmp_path).server == "https://[fd00::1]:443"


def test_a_pod_without_a_service_account(tmp_path: Path) -> None:
    """In a pod whose service account is not mounted, the error names what is missing."""
    with pytest.raises(ConfigError, match=r"service account's CA: can't read .*ca\.crt"):
        in_cluster({"KUBERNETES_SERVICE_HOST": "10.53.0.1"}, tmp_path)


OVERRIDES = Overrides(as_="jane", namespace="", timeout=5.0)


@pytest.fixture(name="account")
def _account(tmp_path: Path) -> Path:
    """The directory of a service account."""
    directory = tmp_path / "account"
    directory.mkdir()
    for name, text in {"ca.crt": "CA", "namespace": "shop\n", "token": "t"}.items():
        (directory / name).write_text(text)
    return directory


def test_options_in_a_pod(account: Path, tmp_path: Path) -> None:
    """A pod's service account acts as the user of the options; those that name parts of a kubeconfig are refused."""
    environment = {"HOME": str(tmp_path), "KUBERNETES_SERVICE_HOST": "10.53.0.1"}
    found = load(None, OVERRIDES, environment=environment, account=account)
    assert (found.impersonate, found.namespace, found.timeout) == (Impersonation("jane"), "shop", 5.0)
    for wrong in (Overrides(context="x"), Overrides(cluster="x"), Overrides(user="x")):
        with pytest.raises(ConfigError, match="no cluster is configured"):
            load(None, wrong, environment=environment, account=account)
    with pytest.raises(ConfigError, match="the service account: a uid, groups or extra"):
        load(None, Overrides(as_groups=("g",)), environment=environment, account=account)


@pytest.mark.parametrize(
    ("context", "option", "pod", "expected"),
    [
        ("", "", False, "default"),
        ("", "", True, "shop"),
        ("own", "", False, "own"),
        ("own", "", True, "own"),
        ("own", "given", True, "given"),
        ("", "given", False, "given"),
    ],
)
def test_namespaces(
    context: str, option: str, pod: bool, expected: str, account: Path, tmp_path: Path
) -> None:
    """The namespace is that of the option, of the context, of the pod, or `default`, in this order."""
    path = tmp_path / "config"
    chosen = {"cluster": "c", "namespace": context} if context else {"cluster": "c"}
    path.write_text(
        yaml.safe_dump(
            {
                "current-context": "m",
                "clusters": [{"name": "c", "cluster": {"server": "https://a"}}],
                "contexts": [{"name": "m", "context": chosen}],
            }
        )
    )
    environment = {"KUBERNETES_SERVICE_HOST": "10.53.0.1"} if pod else {}
    found = load(str(path), Overrides(namespace=option), environment=environment, account=account)
    assert found.namespace == expected


def test_nobody_of_the_kubeconfig_is_left_in_a_login() -> None:
    """A client with a token of a login gets nothing of the configured user: no credentials and no name to act as."""
    full = ClusterConfig(
        server="https://a",
        ca=b"CA",
        server_name="b",
        proxy="http://p",
        token="x",
        token_file="x",
        username="x",
        password="x",
        client_certificate=b"x",
        client_key=b"x",
        exec=ExecPlugin(command="x", api_version="x"),
        impersonate=Impersonation("x"),
    )
    bare = ClusterConfig(server="https://a", ca=b"CA", server_name="b", proxy="http://p", token="mine")
    assert full.with_token("mine") == bare
