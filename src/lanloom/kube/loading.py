"""Which configuration is in force: a file that is named, $KUBECONFIG, ~/.kube/config, or the pod's service account."""

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import structs

from lanloom.kube import plainyaml
from lanloom.kube.config import SERVICE_ACCOUNT, ClusterConfig
from lanloom.kube.errors import ConfigError
from lanloom.kube.kubeconfig import Merged, merge, resolve
from lanloom.kube.kubeconfigfields import Overrides, User, impersonation, read_file
from lanloom.kube.proxies import proxy_for

NO_OVERRIDES = Overrides()


def load(
    path: str | None = None,
    overrides: Overrides = NO_OVERRIDES,
    *,
    environment: Mapping[str, str] = os.environ,
    account: Path = SERVICE_ACCOUNT,
) -> ClusterConfig:
    """Return the configuration in force, as `overrides` change it. Raises ConfigError.

    `account` is the directory of the pod's service account.
    """
    merged = read_files(path, environment)
    in_pod = "KUBERNETES_SERVICE_HOST" in environment and (account / "token").exists()
    if merged.is_empty and not (overrides.context or overrides.cluster or overrides.user) and in_pod:
        found = in_cluster(environment, account, overrides)
    else:
        _check_presence(merged, environment)
        own = _own_namespace(environment, account) if in_pod else ""
        found = resolve(merged, overrides, namespace=own or "default")
    return structs.replace(found, proxy=found.proxy or proxy_for(found.server, environment))


def read_files(path: str | None, environment: Mapping[str, str] = os.environ) -> Merged:
    """Read and merge the kubeconfigs in force. Raises ConfigError."""
    return merge((file, _document(file)) for file in _files(path, environment))


def in_cluster(
    environment: Mapping[str, str], directory: Path = SERVICE_ACCOUNT, overrides: Overrides = NO_OVERRIDES
) -> ClusterConfig:
    """Return the configuration of a pod, from its service account."""
    host, port = environment["KUBERNETES_SERVICE_HOST"], environment.get("KUBERNETES_SERVICE_PORT", "443")
    address = f"[{host}]" if ":" in host else host
    return ClusterConfig(
        server=f"https://{address}:{port}",
        ca=read_file(directory / "ca.crt", "the service account's CA"),
        token_file=str(directory / "token"),
        impersonate=impersonation(User(), overrides, "the service account"),
        namespace=overrides.namespace or _own_namespace(environment, directory) or "default",
        timeout=overrides.timeout,
    )


def _own_namespace(environment: Mapping[str, str], account: Path) -> str:
    """Return the pod's namespace; empty if nothing says it."""
    if named := environment.get("POD_NAMESPACE"):
        return named
    try:
        return (account / "namespace").read_text().strip()
    except OSError:
        return ""


def _files(path: str | None, environment: Mapping[str, str]) -> list[str]:
    """Return the files to read: one that is named must be there, others may be missing."""
    if path:
        return [path]
    listed = environment.get("KUBECONFIG", "")
    every = listed.split(os.pathsep) if listed else [str(Path(environment.get("HOME", "/")) / ".kube/config")]
    return [file for file in dict.fromkeys(every) if file and Path(file).exists()]


def _check_presence(merged: Merged, environment: Mapping[str, str]) -> None:
    if not merged.is_empty:
        return
    if listed := environment.get("KUBECONFIG"):
        raise ConfigError(f"$KUBECONFIG names {listed}, where no cluster is configured")
    raise ConfigError("no cluster is configured; set KUBECONFIG or pass --kubeconfig FILE")


def _document(path: str) -> object:
    text = read_file(Path(path), "the kubeconfig")
    if not text.strip():
        return {}
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        plain = plainyaml.read(text)
        return _yaml(path, text) if plain is None else plain


def _yaml(path: str, text: bytes) -> object:
    import yaml  # which takes as long to import as a request to the cluster takes

    try:
        return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not YAML: {error}") from None
