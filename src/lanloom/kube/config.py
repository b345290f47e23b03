"""Where the API server is and who we are there: kubeconfig files, a pod's service account, and TLS as they ask.

A kubeconfig is decoded into Structs of the fields that we use, so that a wrong type is told with its place in the file.
"""

import base64
import binascii
import os
import socket
import ssl
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Generic, TypeVar

import msgspec
import yaml
from msgspec import Meta, Struct

from lanloom.kube.errors import ConfigError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

B = TypeVar("B")

Name = Annotated[str, Meta(min_length=1)]


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


class Cluster(Struct, frozen=True, rename="kebab"):
    """`clusters[].cluster` of a kubeconfig."""

    server: str = ""
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""


class User(Struct, frozen=True, rename="kebab"):
    """`users[].user` of a kubeconfig; `exec`, `auth_provider` and `username` are known only to be refused."""

    token: str = ""
    token_file: str = msgspec.field(name="tokenFile", default="")
    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None
    exec: object = None
    auth_provider: object = None
    username: str = ""


class Context(Struct, frozen=True):
    """`contexts[].context` of a kubeconfig."""

    cluster: str = ""
    user: str = ""
    namespace: str = ""


class NamedCluster(Struct, frozen=True):
    """An entry of `clusters`."""

    name: Name
    cluster: Cluster = Cluster()


class NamedUser(Struct, frozen=True):
    """An entry of `users`."""

    name: Name
    user: User = User()


class NamedContext(Struct, frozen=True):
    """An entry of `contexts`."""

    name: Name
    context: Context = Context()


class Kubeconfig(Struct, frozen=True, rename="kebab"):
    """One file."""

    current_context: str | None = None
    clusters: tuple[NamedCluster, ...] | None = None
    users: tuple[NamedUser, ...] | None = None
    contexts: tuple[NamedContext, ...] | None = None


class _Entry(Struct, Generic[B], frozen=True):
    """Something that a file defines; relative names in it count from that file."""

    file: str
    body: B


class _Merged(Struct, frozen=True):
    """Several kubeconfigs as one: of two entries with one name, the first file's holds, as kubectl does it."""

    current: str
    clusters: dict[str, _Entry[Cluster]] = {}
    users: dict[str, _Entry[User]] = {}
    contexts: dict[str, _Entry[Context]] = {}


def parse(documents: Iterable[tuple[str, object]]) -> ClusterConfig:
    """Return the configuration of the current context. Raises ConfigError, which names file and field.

    `documents` are pairs of a file's name and its content as YAML reads it.
    """
    merged = _merge([(file, _kubeconfig(file, content)) for file, content in documents])
    if merged.current not in merged.contexts:
        known = ", ".join(sorted(merged.contexts)) or "none"
        raise ConfigError(
            f"the kubeconfig has no context {merged.current!r} (there are: {known}); set current-context"
        )
    context = merged.contexts[merged.current]
    cluster = _named(merged.clusters, "cluster", context.body.cluster, context.file)
    user = _Entry(context.file, User())
    if context.body.user:
        user = _named(merged.users, "user", context.body.user, context.file)
    _refuse_unsupported(cluster, context.body.cluster, user, context.body.user)
    return ClusterConfig(
        server=cluster.body.server.rstrip("/"),
        ca=_data(cluster, "certificate-authority"),
        insecure=cluster.body.insecure_skip_tls_verify,
        server_name=cluster.body.tls_server_name,
        token=user.body.token,
        token_file=str(Path(user.file).parent / user.body.token_file) if user.body.token_file else "",
        client_certificate=_data(user, "client-certificate"),
        client_key=_data(user, "client-key"),
        namespace=context.body.namespace or "default",
    )


def _kubeconfig(file: str, content: object) -> Kubeconfig:
    try:
        return msgspec.convert(content, Kubeconfig)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{file} is not a kubeconfig: {error}") from None


def _merge(files: Iterable[tuple[str, Kubeconfig]]) -> _Merged:
    files = list(files)
    merged = _Merged(next((content.current_context for _, content in files if content.current_context), ""))
    for file, content in files:
        for cluster in content.clusters or ():
            merged.clusters.setdefault(cluster.name, _Entry(file, cluster.cluster))
        for user in content.users or ():
            merged.users.setdefault(user.name, _Entry(file, user.user))
        for context in content.contexts or ():
            merged.contexts.setdefault(context.name, _Entry(file, context.context))
    return merged


def _named(entries: Mapping[str, _Entry[B]], kind: str, name: str, file: str) -> _Entry[B]:
    if name not in entries:
        raise ConfigError(f"{file}: the context names {kind} {name!r}, which does not exist")
    return entries[name]


def _refuse_unsupported(
    cluster: _Entry[Cluster], cluster_name: str, user: _Entry[User], user_name: str
) -> None:
    if not cluster.body.server.startswith(("https://", "http://")):
        raise ConfigError(
            f"{cluster.file}: server of cluster {cluster_name!r} must be an https:// address,"
            f" not {cluster.body.server!r}"
        )
    if cluster.body.proxy_url:
        raise ConfigError(
            f"{cluster.file}: cluster {cluster_name!r} uses proxy-url, which Lanloom does not support;"
            " name a server that can be reached directly"
        )
    used = {"exec": user.body.exec, "auth-provider": user.body.auth_provider, "username": user.body.username}
    for field, value in used.items():
        if value:
            raise ConfigError(
                f"{user.file}: user {user_name!r} uses {field}, which Lanloom does not support;"
                " give it a token or a client certificate"
            )


def _data(entry: _Entry[Cluster] | _Entry[User], field: str) -> bytes:
    """`FIELD-data` in base64, else the content of the file that `FIELD` names."""
    attribute = field.replace("-", "_")
    inline: str | None = getattr(entry.body, f"{attribute}_data")
    if inline:
        try:
            return base64.b64decode(inline, validate=True)
        except (binascii.Error, ValueError):
            raise ConfigError(f"{entry.file}: {field}-data is not base64") from None
    name: str | None = getattr(entry.body, attribute)
    return _read(Path(entry.file).parent / name, f"{entry.file}: {field}") if name else b""


def load(path: str | None = None, *, environment: Mapping[str, str] = os.environ) -> ClusterConfig:
    """The configuration in force: `path`, $KUBECONFIG (several files), ~/.kube/config, or the pod's service account."""
    if path is not None:
        return parse([(path, _document(path))])
    listed = [item for item in environment.get("KUBECONFIG", "").split(os.pathsep) if item]
    home = Path(environment.get("HOME", "/")) / ".kube/config"
    files = [item for item in listed if Path(item).exists()]
    if listed and not files:
        raise ConfigError(f"$KUBECONFIG names {', '.join(listed)}, which does not exist")
    if not listed and home.exists():
        files = [str(home)]
    if files:
        return parse([(item, _document(item)) for item in files])
    if "KUBERNETES_SERVICE_HOST" in environment:
        return in_cluster(environment)
    raise ConfigError("no cluster is configured; set KUBECONFIG or pass --kubeconfig FILE")


def in_cluster(environment: Mapping[str, str], directory: Path = SERVICE_ACCOUNT) -> ClusterConfig:
    """Return the configuration of a pod, from its service account."""
    host, port = environment["KUBERNETES_SERVICE_HOST"], environment.get("KUBERNETES_SERVICE_PORT", "443")
    address = f"[{host}]" if ":" in host else host
    return ClusterConfig(
        server=f"https://{address}:{port}",
        ca=_read(directory / "ca.crt", "the service account's CA"),
        token_file=str(directory / "token"),
        namespace=_read(directory / "namespace", "the service account's namespace").decode().strip(),
    )


def _document(path: str) -> object:
    text = _read(Path(path), "the kubeconfig")
    try:
        return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not YAML: {error}") from None


def _read(path: Path, what: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{what}: can't read {path}: {error.strerror}") from None


def client_context(config: ClusterConfig) -> ssl.SSLContext:
    """Return the context for connections. Raises ConfigError for certificates that can't be used."""
    try:
        context = ssl.create_default_context(cadata=config.ca.decode("ascii") if config.ca else None)
    except (ssl.SSLError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"certificate-authority of {config.server} is not a PEM certificate: {error}"
        ) from None
    if config.insecure:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if config.client_certificate:
        _load_client_certificate(context, config)
    return context


def _load_client_certificate(context: ssl.SSLContext, config: ClusterConfig) -> None:
    try:
        with memory_file(config.client_certificate + b"\n" + config.client_key) as path:
            context.load_cert_chain(path)
    except ssl.SSLError as error:
        raise ConfigError(
            f"client-certificate or client-key of {config.server} can't be used: {error}"
        ) from None


def why_not_connected(error: OSError, place: str) -> str:
    """Return why there is no connection to `place` (host:port), for people; empty where the error does not tell."""
    match error:
        case ssl.SSLCertVerificationError():
            return f"the server's certificate is not trusted: {error.verify_message}"
        case socket.gaierror(strerror=str(why)):
            return f"cannot connect to {place}: {why.lower()}"
        case OSError(errno=int(number)):
            return f"cannot connect to {place}: {os.strerror(number).lower()}"
    return ""


@contextmanager
def memory_file(content: bytes) -> Iterator[str]:
    """A path under which this process can read `content` while the block lasts. Nothing reaches a disk.

    For libraries that take secrets by path only (OpenSSL under Python's `ssl`).
    """
    descriptor = os.memfd_create("lanloom")
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
