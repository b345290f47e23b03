"""Where the API server is and who we are there: kubeconfig files and a pod's service account.

Parsing is pure (`parse`, `merge`); reading files is apart (`load`).
"""

import base64
import binascii
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

from lanloom.kube.errors import ConfigError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

Raw = dict[str, Any]


class ClusterConfig(Struct, frozen=True, kw_only=True):
    """An API server and credentials for it. Certificates and keys are PEM; `token_file` is read again as it changes."""

    server: str
    ca: bytes = b""
    insecure: bool = False
    server_name: str = ""
    token: str = ""
    token_file: str = ""
    client_certificate: bytes = b""
    client_key: bytes = b""
    namespace: str = "default"


def merge(documents: Iterable[tuple[str, Raw]]) -> Raw:
    """Several kubeconfigs as one: of two entries with one name, the first file's holds, as kubectl does it."""
    merged: Raw = {"clusters": {}, "users": {}, "contexts": {}}
    for origin, document in documents:
        merged.setdefault("current-context", document.get("current-context") or None)
        merged["current-context"] = merged["current-context"] or document.get("current-context")
        for kind in ("clusters", "users", "contexts"):
            for entry in document.get(kind) or ():
                if not isinstance(entry, dict) or "name" not in entry:
                    raise ConfigError(f"{origin}: {kind} holds an entry without a name")
                body = entry.get(kind[:-1]) or {}
                merged[kind].setdefault(entry["name"], (origin, body))
    return merged


def parse(documents: Iterable[tuple[str, Raw]], context: str = "") -> ClusterConfig:
    """The configuration of a context (the current one if empty). Raises ConfigError, which names file and field.

    `documents` are pairs of a file's name and its content. Relative file names count from the file that holds them.
    """
    merged = merge(documents)
    name = context or merged.get("current-context") or ""
    if name not in merged["contexts"]:
        known = ", ".join(sorted(merged["contexts"])) or "none"
        raise ConfigError(f"the kubeconfig has no context {name!r} (there are: {known}); set current-context")
    origin, chosen = merged["contexts"][name]
    cluster_origin, cluster = _entry(merged, "clusters", chosen.get("cluster"), origin)
    user_origin, user = (
        _entry(merged, "users", chosen.get("user"), origin) if chosen.get("user") else (origin, {})
    )
    if not cluster.get("server"):
        raise ConfigError(f"{cluster_origin}: cluster {chosen['cluster']!r} has no server")
    for field in ("exec", "auth-provider"):
        if field in user:
            raise ConfigError(
                f"{user_origin}: user {chosen['user']!r} uses {field}, which Lanloom can't; give it a token"
            )
    token_file = user.get("tokenFile", "")
    return ClusterConfig(
        server=cluster["server"].rstrip("/"),
        ca=_data(cluster, "certificate-authority", cluster_origin),
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
        server_name=cluster.get("tls-server-name", ""),
        token=user.get("token", ""),
        token_file=str(Path(user_origin).parent / token_file) if token_file else "",
        client_certificate=_data(user, "client-certificate", user_origin),
        client_key=_data(user, "client-key", user_origin),
        namespace=chosen.get("namespace", "default"),
    )


def _entry(merged: Raw, kind: str, name: object, origin: str) -> tuple[str, Raw]:
    found = merged[kind].get(name)
    if found is None:
        raise ConfigError(f"{origin}: the context names {kind[:-1]} {name!r}, which is not there")
    entry: tuple[str, Raw] = found
    return entry


def _data(entry: Mapping[str, Any], field: str, origin: str) -> bytes:
    """`FIELD-data` in base64, else the content of the file that `FIELD` names."""
    inline = entry.get(f"{field}-data")
    if inline:
        try:
            return base64.b64decode(inline, validate=True)
        except (binascii.Error, ValueError):
            raise ConfigError(f"{origin}: {field}-data is not base64") from None
    name = entry.get(field)
    return _read(Path(origin).parent / name, f"{origin}: {field}") if name else b""


def load(path: str | None = None, *, environment: Mapping[str, str] = os.environ) -> ClusterConfig:
    """The configuration in force: `path`, $KUBECONFIG (several files), ~/.kube/config, or the pod's service account."""
    if path is not None:
        return parse([(path, _document(path))])
    listed = [item for item in environment.get("KUBECONFIG", "").split(os.pathsep) if item]
    home = Path(environment.get("HOME", "/")) / ".kube/config"
    files = [item for item in listed if Path(item).exists()]
    if listed and not files:
        raise ConfigError(f"$KUBECONFIG names {', '.join(listed)}, which is not there")
    if not listed and home.exists():
        files = [str(home)]
    if files:
        return parse([(item, _document(item)) for item in files])
    if "KUBERNETES_SERVICE_HOST" in environment:
        return in_cluster(environment)
    raise ConfigError("no cluster is configured; set KUBECONFIG or pass --kubeconfig FILE")


def in_cluster(environment: Mapping[str, str], directory: Path = SERVICE_ACCOUNT) -> ClusterConfig:
    """The configuration of a pod, from its service account."""
    host, port = environment["KUBERNETES_SERVICE_HOST"], environment.get("KUBERNETES_SERVICE_PORT", "443")
    address = f"[{host}]" if ":" in host else host
    return ClusterConfig(
        server=f"https://{address}:{port}",
        ca=_read(directory / "ca.crt", "the service account's CA"),
        token_file=str(directory / "token"),
        namespace=_read(directory / "namespace", "the service account's namespace").decode().strip(),
    )


def _document(path: str) -> Raw:
    try:
        document = yaml.load(
            _read(Path(path), "the kubeconfig"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        )
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not YAML: {error}") from None
    if not isinstance(document, dict):
        raise ConfigError(
            f"{path} is not a kubeconfig: it must be a mapping with clusters, users and contexts"
        )
    return document


def _read(path: Path, what: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{what}: can't read {path}: {error.strerror}") from None
