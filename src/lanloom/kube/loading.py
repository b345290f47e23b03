"""Which configuration is in force: a file that is named, $KUBECONFIG, ~/.kube/config, or the pod's service account.

The proxy is that of the environment where the configuration names none: the variables are read as Go's programs read
them, kubectl among them.
"""

import ipaddress
import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

import msgspec
from msgspec import structs

from lanloom.kube import plainyaml
from lanloom.kube.config import SERVICE_ACCOUNT, ClusterConfig
from lanloom.kube.errors import ConfigError
from lanloom.kube.kubeconfig import Merged, merge, resolve
from lanloom.kube.kubeconfigfields import Overrides, User, impersonation, read_file
from lanloom.text import authority

NO_OVERRIDES = Overrides()

SCHEMES = ("http", "https", "socks5")


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
    return ClusterConfig(
        server=f"https://{authority(host, port)}",
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


def proxy_for(server: str, environment: Mapping[str, str]) -> str:
    """Return the URL of the proxy for a server; empty for none. Raises ConfigError for one that can't be used.

    HTTPS_PROXY holds for https://, HTTP_PROXY for http://; the names in capitals go before the others. Loopback
    addresses and `localhost` have no proxy.
    """
    place = urlsplit(server)
    name = f"{place.scheme}_proxy"
    proxy = environment.get(name.upper()) or environment.get(name, "")
    excepted = environment.get("NO_PROXY") or environment.get("no_proxy", "")
    if not proxy or _is_local(place.hostname or "") or _is_excepted(place, excepted):
        return ""
    if "://" not in proxy:
        proxy = f"http://{proxy}"
    scheme = urlsplit(proxy).scheme
    if scheme == "socks5h":
        return "socks5" + proxy.removeprefix("socks5h")
    if scheme not in SCHEMES:
        raise ConfigError(f"${name.upper()} is {proxy!r}; it must begin with {', '.join(SCHEMES)}, and ://")
    return proxy


def _is_local(host: str) -> bool:
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def _is_excepted(place: SplitResult, entries: str) -> bool:
    port = place.port or (443 if place.scheme == "https" else 80)
    return any(_matches(entry.strip().lower(), place.hostname or "", port) for entry in entries.split(","))


def _matches(entry: str, host: str, port: int) -> bool:
    """Return whether an entry of NO_PROXY means a host: *, an address, a range, or a domain; with a port, that only."""
    if entry in ("", "*"):
        return entry == "*"
    address = _address(host)
    if "/" in entry:
        return address is not None and _in_range(address, entry)
    name, number = _divided(entry)
    if number and number != str(port):
        return False
    if (wanted := _address(name)) is not None:
        return wanted == address
    if name.startswith("*."):
        name = name[1:]
    return host.endswith(name) if name.startswith(".") else host == name or host.endswith(f".{name}")


def _divided(entry: str) -> tuple[str, str]:
    """Return the host and the port of an entry; the port is empty if there is none."""
    if entry.startswith("["):
        name, _, rest = entry[1:].partition("]")
        return name, rest.removeprefix(":")
    name, _, number = entry.rpartition(":")
    return (name, number) if name and ":" not in name else (entry, "")


def _in_range(address: ipaddress.IPv4Address | ipaddress.IPv6Address, entry: str) -> bool:
    try:
        return address in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        return False


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
