"""Where a client finds its server and its credentials, and what it says when it can't."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from lanloom.kube.config import ClusterConfig, in_cluster, load
from lanloom.kube.errors import ConfigError

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
    """Files of $KUBECONFIG that are missing are passed over unless all are."""
    listed = _simple(tmp_path / "listed", "listed")
    missing = str(tmp_path / "missing")
    assert load(environment={"KUBECONFIG": f"{missing}:{listed}:"}).server == "https://listed"
    with pytest.raises(ConfigError, match=r"\$KUBECONFIG names .*missing, which does not exist"):
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
    """A pod whose service account is not mounted is told what is missing."""
    with pytest.raises(ConfigError, match=r"service account's CA: can't read .*ca\.crt"):
        in_cluster({"KUBERNETES_SERVICE_HOST": "10.53.0.1"}, tmp_path)
