"""Kubeconfig files as kubectl reads them: several files as one, a context, and options that change it.

A file is decoded into Structs, so that a wrong type is reported with its place. What kubectl refuses is refused here,
and what Lanloom can't use too. A field that is ignored is noted: nothing that decides about a user's identity may be
dropped silently.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from msgspec import Meta, Struct, field

from lanloom.api.reading import without_nulls
from lanloom.kube.config import ClusterConfig
from lanloom.kube.errors import ConfigError
from lanloom.kube.kubeconfigfields import (
    Cluster,
    Context,
    Overrides,
    User,
    check_cluster,
    check_user,
    exec_plugin,
    file_data,
    impersonation,
    url_of,
)

B = TypeVar("B", Cluster, User, Context)

Name = Annotated[str, Meta(min_length=1)]

_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class _NamedCluster(Struct, frozen=True):
    """An entry of `clusters`."""

    name: Name
    cluster: Cluster = Cluster()


class _NamedUser(Struct, frozen=True):
    """An entry of `users`."""

    name: Name
    user: User = User()


class _NamedContext(Struct, frozen=True):
    """An entry of `contexts`."""

    name: Name
    context: Context = Context()


class _Kubeconfig(Struct, frozen=True, rename="kebab"):
    """One file."""

    kind: str = "Config"
    api_version: str = field(name="apiVersion", default="v1")
    current_context: str = ""
    clusters: tuple[_NamedCluster, ...] = ()
    users: tuple[_NamedUser, ...] = ()
    contexts: tuple[_NamedContext, ...] = ()


class _Entry(Struct, Generic[B], frozen=True):
    """Something that a file defines, as it is there and decoded. Relative names in it count from that file."""

    file: str
    name: str
    body: B
    raw: Mapping[str, Any] = {}


class Merged(Struct, frozen=True):
    """Several kubeconfigs as one: of two entries with one name, the first file's holds."""

    current: str
    clusters: dict[str, _Entry[Cluster]] = {}
    users: dict[str, _Entry[User]] = {}
    contexts: dict[str, _Entry[Context]] = {}

    @property
    def is_empty(self) -> bool:
        """Whether nothing is defined."""
        return not (self.current or self.clusters or self.users or self.contexts)


def merge(documents: Iterable[tuple[str, object]]) -> Merged:
    """Merge files; `documents` are pairs of a file's name and its content as YAML reads it. Raises ConfigError."""
    files = [(file, _decoded(file, content), content) for file, content in documents]
    merged = Merged(next((config.current_context for _, config, _ in files if config.current_context), ""))
    for file, config, content in files:
        raw = content if isinstance(content, dict) else {}
        clusters = ((item.name, item.cluster) for item in config.clusters)
        users = ((item.name, item.user) for item in config.users)
        contexts = ((item.name, item.context) for item in config.contexts)
        _add(merged.clusters, file, "cluster", clusters, raw)
        _add(merged.users, file, "user", users, raw)
        _add(merged.contexts, file, "context", contexts, raw)
    return merged


def resolve(merged: Merged, overrides: Overrides, *, namespace: str = "default") -> ClusterConfig:
    """Return the configuration of the current context, or of what `overrides` names. Raises ConfigError.

    `namespace` is the one to use where neither says one.
    """
    context = _context(merged, overrides)
    cluster = _find(merged.clusters, "cluster", overrides.cluster, context, context.body.cluster)
    if cluster is None:
        raise ConfigError(
            f"{context.file}: context {context.name!r} names no cluster; name one with --cluster"
        )
    user = _find(merged.users, "user", overrides.user, context, context.body.user)
    user = user or _Entry(context.file, "", User())
    check_cluster(cluster.body, f"{cluster.file}: cluster {cluster.name!r}")
    check_user(user.body, f"{user.file}: user {user.name!r}")
    used = overrides.namespace or context.body.namespace or namespace
    if not _NAMESPACE.fullmatch(used):
        raise ConfigError(f"{context.file}: context {context.name!r}: {used!r} can't be a namespace")
    return _configuration(cluster, user, overrides, used, tuple(_unknown_fields(cluster, user, context)))


def _configuration(
    cluster: _Entry[Cluster], user: _Entry[User], overrides: Overrides, namespace: str, notes: tuple[str, ...]
) -> ClusterConfig:
    """Put the parts together; credentials only for a server with TLS, as kubectl does."""
    server = url_of(cluster.body, f"{cluster.file}: cluster {cluster.name!r}")
    place = f"{user.file}: user {user.name!r}"
    ca = file_data(cluster.body, "certificate_authority", cluster.file)
    found = ClusterConfig(
        server=server,
        ca=ca,
        insecure=cluster.body.insecure_skip_tls_verify,
        server_name=cluster.body.tls_server_name,
        proxy=cluster.body.proxy_url,
        compression=not cluster.body.disable_compression,
        impersonate=impersonation(user.body, overrides, place),
        namespace=namespace,
        timeout=overrides.timeout,
        notes=notes,
    )
    if server.startswith("http:"):
        ignored = f"{place}: its credentials are not used, as {server} has no TLS"
        return (
            msgspec.structs.replace(found, notes=(*notes, ignored)) if _has_credentials(user.body) else found
        )
    return msgspec.structs.replace(
        found,
        token=user.body.token,
        token_file=str(Path(user.file).parent / user.body.token_file) if user.body.token_file else "",
        username=user.body.username,
        password=user.body.password,
        client_certificate=file_data(user.body, "client_certificate", user.file),
        client_key=file_data(user.body, "client_key", user.file),
        exec=exec_plugin(user.body, cluster.body, server, ca, user.file),
    )


def _has_credentials(user: User) -> bool:
    certificate = user.client_certificate or user.client_certificate_data
    return bool(user.token or user.token_file or user.username or certificate or user.exec)


def _context(merged: Merged, overrides: Overrides) -> _Entry[Context]:
    """Return the context that holds: an empty one if there is none, and the options name a cluster."""
    name = overrides.context or merged.current
    if name in merged.contexts:
        return merged.contexts[name]
    if not name and overrides.cluster:
        return _Entry("the options", "", Context())
    known = ", ".join(sorted(merged.contexts)) or "none"
    if not name:
        raise ConfigError(
            f"the kubeconfig has no current-context (contexts: {known}); name one with --context"
        )
    raise ConfigError(f"the kubeconfig has no context {name!r} (there are: {known})")


def _find(
    entries: Mapping[str, _Entry[B]], kind: str, option: str, context: _Entry[Context], named: str
) -> _Entry[B] | None:
    """Return the entry that an option or the context names; None if neither names one."""
    name = option or named
    if not name:
        return None
    if name not in entries:
        known = ", ".join(sorted(entries)) or "none"
        whose = f"--{kind} names" if option else f"{context.file}: context {context.name!r} names"
        raise ConfigError(f"{whose} {kind} {name!r}, which does not exist (there are: {known})")
    return entries[name]


def _decoded(file: str, content: object) -> _Kubeconfig:
    try:
        config = msgspec.convert(without_nulls(content), _Kubeconfig)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{file} is not a kubeconfig: {error}") from None
    if (config.api_version, config.kind) != ("v1", "Config"):
        raise ConfigError(f"{file} is not a kubeconfig: it is a {config.kind} of {config.api_version}")
    return config


def _add(
    entries: dict[str, _Entry[B]],
    file: str,
    kind: str,
    found: Iterable[tuple[str, B]],
    content: Mapping[str, Any],
) -> None:
    """Add a file's entries that no earlier file has. Raises ConfigError for a name that the file has twice."""
    raw = {item["name"]: item.get(kind) or {} for item in content.get(f"{kind}s") or ()}
    names: set[str] = set()
    for name, body in found:
        if name in names:
            raise ConfigError(f"{file}: {kind} {name!r} is there twice; leave one of them")
        names.add(name)
        entries.setdefault(name, _Entry(file, name, body, raw[name]))


def _unknown_fields(*entries: _Entry[Any]) -> Iterator[str]:
    """Yield a note for each field that neither kubectl nor Lanloom reads."""
    for entry in entries:
        bodies = [("", entry.raw, entry.body)]
        if isinstance(entry.body, User) and entry.body.exec is not None:
            bodies.append(("exec.", entry.raw["exec"], entry.body.exec))
        for before, raw, body in bodies:
            known = {item.encode_name for item in msgspec.structs.fields(body)}
            for name in raw:
                if name not in known:
                    kind = type(entry.body).__name__.lower()
                    yield f"{entry.file}: {kind} {entry.name!r}: the field {before}{name} is not known and ignored"
