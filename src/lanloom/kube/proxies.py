"""The proxy of the environment, for a server: the variables as Go's programs read them, kubectl among them."""

import ipaddress
from collections.abc import Mapping
from urllib.parse import SplitResult, urlsplit

from lanloom.kube.errors import ConfigError

SCHEMES = ("http", "https", "socks5")


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
