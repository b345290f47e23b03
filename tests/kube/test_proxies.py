"""Which proxy the environment has for a server."""

import pytest

from lanloom.kube.errors import ConfigError
from lanloom.kube.loading import proxy_for

SERVER = "https://api.example.org:6443"


@pytest.mark.parametrize(
    ("server", "excepted", "proxied"),
    [
        (SERVER, "", True),
        (SERVER, "*", False),
        (SERVER, "example.org", False),
        (SERVER, " Example.org ,x", False),
        (SERVER, ".example.org", False),
        (SERVER, "*.example.org", False),
        (SERVER, "api.example.org", False),
        (SERVER, ".api.example.org", True),
        (SERVER, "ple.org", True),
        (SERVER, "api.example.org:6443", False),
        (SERVER, "api.example.org:443", True),
        (SERVER, "10.0.0.0/8", True),
        ("https://10.1.2.3:6443", "10.0.0.0/8", False),
        ("https://10.1.2.3:6443", "10.1.2.3", False),
        ("https://10.1.2.3:6443", "10.1.2.3:6443", False),
        ("https://10.1.2.3", "10.1.2.3:443", False),
        ("https://10.1.2.3", "10.1.2.0", True),
        ("https://10.1.2.3", "10.1.2.3/x", True),
        ("https://[2001:db8::1]:6443", "2001:db8::/32", False),
        ("https://[2001:db8::1]:6443", "2001:db8::1", False),
        ("https://[2001:db8::1]:6443", "[2001:db8::1]:6443", False),
        ("https://[2001:db8::1]:6443", "[2001:db8::1]:443", True),
        ("https://localhost:6443", "", False),
        ("https://127.0.0.53:6443", "", False),
        ("https://[::1]:6443", "", False),
    ],
)
def test_exceptions(server: str, excepted: str, proxied: bool) -> None:
    """NO_PROXY means hosts, domains, addresses and ranges, as Go's programs read it."""
    found = proxy_for(server, {"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": excepted})
    assert found == ("http://proxy:3128" if proxied else "")


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, ""),
        ({"HTTP_PROXY": "http://p"}, ""),
        ({"https_proxy": "p:3128"}, "http://p:3128"),
        ({"HTTPS_PROXY": "http://a", "https_proxy": "http://b"}, "http://a"),
        ({"HTTPS_PROXY": "", "https_proxy": "http://b"}, "http://b"),
        ({"HTTPS_PROXY": "https://a", "no_proxy": "example.org"}, ""),
        ({"HTTPS_PROXY": "socks5h://a:1080"}, "socks5://a:1080"),
    ],
)
def test_variables(environment: dict[str, str], expected: str) -> None:
    """The names in capitals go before those in small letters, and http:// is the usual scheme."""
    assert proxy_for(SERVER, environment) == expected


def test_a_proxy_of_an_unknown_kind() -> None:
    """A proxy that can't be used is named with its variable."""
    with pytest.raises(
        ConfigError, match=r"^\$HTTPS_PROXY is 'ftp://p'; it must begin with http, https, socks5"
    ):
        proxy_for(SERVER, {"HTTPS_PROXY": "ftp://p"})
