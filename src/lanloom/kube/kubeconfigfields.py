"""The fields of a kubeconfig's clusters, users and contexts, and what is required of them.

The rules are those of client-go's `clientcmd`: what kubectl refuses is refused.
"""

import base64
import binascii
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct, field

from lanloom.kube.config import ExecPlugin, Impersonation, Interactive
from lanloom.kube.errors import ConfigError

PROXY_SCHEMES = ("http", "https", "socks5")

EXEC_EXTENSION = "client.authentication.k8s.io/exec"
"""The name of the extension of a cluster that an exec plugin gets as `config`."""

EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")


class Extension(Struct, frozen=True):
    """An entry of `extensions`."""

    name: str = ""
    extension: Any = None


class Cluster(Struct, frozen=True, rename="kebab"):
    """`clusters[].cluster`."""

    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    disable_compression: bool = False
    extensions: tuple[Extension, ...] = ()


class ExecVariable(Struct, frozen=True):
    """An entry of `exec.env`."""

    name: str = ""
    value: str = ""


class Exec(Struct, frozen=True, rename="camel"):
    """`users[].user.exec`."""

    command: str = ""
    args: tuple[str, ...] = ()
    env: tuple[ExecVariable, ...] = ()
    api_version: str = ""
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class AuthProvider(Struct, frozen=True):
    """`users[].user.auth-provider`, which is known only to be refused."""

    name: str = ""


class User(Struct, frozen=True, rename="kebab"):
    """`users[].user`."""

    token: str = ""
    token_file: str = field(name="tokenFile", default="")
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    username: str = ""
    password: str = ""
    as_: str = field(name="as", default="")
    as_uid: str = ""
    as_groups: tuple[str, ...] = ()
    as_user_extra: dict[str, tuple[str, ...]] = {}
    exec: Exec | None = None
    auth_provider: AuthProvider | None = None
    extensions: tuple[Extension, ...] = ()


class Context(Struct, frozen=True):
    """`contexts[].context`."""

    cluster: str = ""
    user: str = ""
    namespace: str = ""
    extensions: tuple[Extension, ...] = ()


class Overrides(Struct, frozen=True, kw_only=True):
    """What a command's options say instead of the kubeconfig; `timeout` in seconds, 0 for none."""

    context: str = ""
    cluster: str = ""
    user: str = ""
    as_: str = ""
    as_uid: str = ""
    as_groups: tuple[str, ...] = ()
    namespace: str = ""
    timeout: float | None = None


def check_cluster(cluster: Cluster, place: str) -> None:
    """Raise ConfigError for a cluster that can't be used, with its `place`."""
    if not cluster.server:
        raise ConfigError(f"{place} has no server; set it to an https:// address")
    has_ca = bool(cluster.certificate_authority or cluster.certificate_authority_data)
    if cluster.certificate_authority and cluster.certificate_authority_data:
        raise ConfigError(
            f"{place} has certificate-authority and certificate-authority-data; leave one of them"
        )
    if has_ca and cluster.insecure_skip_tls_verify:
        raise ConfigError(
            f"{place} has insecure-skip-tls-verify and a certificate-authority; leave one of them"
        )
    if cluster.proxy_url and urlsplit(cluster.proxy_url).scheme not in PROXY_SCHEMES:
        raise ConfigError(
            f"{place}: proxy-url {cluster.proxy_url!r} must begin with {', '.join(PROXY_SCHEMES)}, and ://"
        )


def check_user(user: User, place: str) -> None:
    """Raise ConfigError for a user that can't be used, with its `place`."""
    if user.auth_provider is not None:
        raise ConfigError(
            f"{place} uses auth-provider {user.auth_provider.name or '(without a name)'}, which Lanloom does not have;"
            " kubectl's own are replaced by exec plugins, such as gke-gcloud-auth-plugin and kubelogin"
        )
    for name, chosen in _both(user):
        if chosen:
            raise ConfigError(f"{place} has {name} and {name}-data; leave one of them")
    certificate = user.client_certificate or user.client_certificate_data
    if certificate and not (user.client_key or user.client_key_data):
        raise ConfigError(
            f"{place} has a client-certificate without a client-key; add client-key or client-key-data"
        )
    if user.token and (user.username or user.password):
        raise ConfigError(f"{place} has a token and a username or password; leave one of them")
    if user.exec is not None:
        _check_exec(user.exec, place)


def _both(user: User) -> Iterator[tuple[str, bool]]:
    if user.client_certificate or user.client_certificate_data:
        yield "client-certificate", bool(user.client_certificate and user.client_certificate_data)
        yield "client-key", bool(user.client_key and user.client_key_data)


def _check_exec(plugin: Exec, place: str) -> None:
    if not plugin.command:
        raise ConfigError(f"{place}: exec has no command; name the program that prints credentials")
    if plugin.api_version not in EXEC_VERSIONS:
        raise ConfigError(
            f"{place}: exec has apiVersion {plugin.api_version!r}; kubectl and Lanloom know"
            f" {' and '.join(EXEC_VERSIONS)}: use a newer version of {plugin.command}"
        )
    if not all(item.name for item in plugin.env):
        raise ConfigError(f"{place}: exec has an env entry without a name")
    modes = ("Never", "IfAvailable", "Always")
    if plugin.interactive_mode not in modes and (plugin.interactive_mode or _needs_mode(plugin)):
        raise ConfigError(
            f"{place}: exec has interactiveMode {plugin.interactive_mode!r}; it must be one of {', '.join(modes)}"
        )


def _needs_mode(plugin: Exec) -> bool:
    return plugin.api_version == EXEC_VERSIONS[0]


def impersonation(user: User, overrides: Overrides, place: str) -> Impersonation:
    """Return the user to impersonate: options go before fields, each for itself. Raises ConfigError."""
    found = Impersonation(
        user=overrides.as_ or user.as_,
        uid=overrides.as_uid or user.as_uid,
        groups=overrides.as_groups or user.as_groups,
        extra=user.as_user_extra,
    )
    if not found.user and (found.uid or found.groups or found.extra):
        raise ConfigError(f"{place}: a uid, groups or extra of another user need a name; add as, or --as")
    texts = (
        found.user,
        found.uid,
        *found.groups,
        *(text for texts in found.extra.values() for text in texts),
    )
    if any(not text.isprintable() for text in texts):
        raise ConfigError(f"{place}: a name to act as has a control character; correct as, as-uid, as-groups")
    return found


def exec_plugin(user: User, cluster: Cluster, server: str, ca: bytes, file: str) -> ExecPlugin | None:
    """Return the program that prints credentials. One with a slash in its name counts from the kubeconfig."""
    plugin = user.exec
    if plugin is None:
        return None
    mode: Interactive = "IfAvailable"
    if plugin.interactive_mode in ("Never", "Always"):
        mode = "Never" if plugin.interactive_mode == "Never" else "Always"
    return ExecPlugin(
        command=str(Path(file).parent / plugin.command) if "/" in plugin.command else plugin.command,
        api_version=plugin.api_version,
        args=plugin.args,
        env=tuple((item.name, item.value) for item in plugin.env),
        interactive=mode,
        install_hint=plugin.install_hint,
        cluster=_exec_cluster(cluster, server, ca) if plugin.provide_cluster_info else None,
    )


def _exec_cluster(cluster: Cluster, server: str, ca: bytes) -> Mapping[str, object]:
    """Return what an exec plugin learns of the cluster."""
    own = next((item.extension for item in cluster.extensions if item.name == EXEC_EXTENSION), None)
    found: dict[str, object] = {
        "server": server,
        "tls-server-name": cluster.tls_server_name,
        "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
        "certificate-authority-data": base64.b64encode(ca).decode(),
        "proxy-url": cluster.proxy_url,
        "disable-compression": cluster.disable_compression,
    }
    return {name: value for name, value in found.items() if value} | {"config": own}


def file_data(body: Cluster | User, attribute: str, file: str) -> bytes:
    """`FIELD-data` in base64, else the content of the file that `FIELD` names, from `file` on."""
    name = attribute.replace("_", "-")
    inline: str = getattr(body, f"{attribute}_data")
    if inline:
        try:
            return base64.b64decode("".join(inline.split()), validate=True)
        except (binascii.Error, ValueError):
            raise ConfigError(f"{file}: {name}-data is not base64") from None
    path: str = getattr(body, attribute)
    return read_file(Path(file).parent / path, f"{file}: {name}") if path else b""


def read_file(path: Path, what: str) -> bytes:
    """Return a file's content. Raises ConfigError, which says `what` the file is."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{what}: can't read {path}: {error.strerror}") from None


def url_of(cluster: Cluster, place: str) -> str:
    """Return the server's URL: without a scheme it is http://, as with kubectl. Raises ConfigError.

    Where something of TLS is configured, that is refused: kubectl would use none of it.
    """
    has_tls = cluster.certificate_authority or cluster.certificate_authority_data
    server = cluster.server
    if "://" not in server and not (has_tls or cluster.insecure_skip_tls_verify):
        server = f"http://{server}"
    try:
        parts = urlsplit(server)
        usable = parts.scheme in ("http", "https") and parts.hostname and (parts.port or 1) > 0
    except ValueError:
        usable = False
    if not usable:
        raise ConfigError(f"{place}: server must be an https:// address, not {cluster.server!r}")
    return parts._replace(query="", fragment="").geturl().rstrip("/")
