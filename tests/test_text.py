"""Hosts and ports in URLs, options and messages."""

import ast
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanloom.runtime.probes import parse_address
from lanloom.text import authority
from tests.harness.syntax import parse

SOURCES = Path(__file__).parents[1] / "src"
NAMES = st.from_regex(r"[a-z][a-z0-9-]{0,20}(\.[a-z]{1,5})?", fullmatch=True)
PORTS = st.integers(min_value=0, max_value=65535)


@given(st.ip_addresses().map(str) | NAMES, PORTS)
def test_a_host_and_its_port_are_read_as_they_were_written(host: str, port: int) -> None:
    """Names and addresses of both IP versions, joined with a port, are divided again by options and by URLs."""
    joined = authority(host, port)
    assert parse_address(joined) == (host, port)
    place = urlsplit(f"https://{joined}/readyz")
    assert (place.hostname, place.port) == (host, port)


@given(st.ip_addresses(v=6), PORTS)
def test_an_address_of_ipv6_may_lack_its_brackets(address: object, port: int) -> None:
    """The chart joins status.hostIP with a port, of whichever IP version it is: the last number is the port."""
    host = str(address)
    assert parse_address(f"{host}:{port}") == (host, port)
    assert ip_address(parse_address(f"[{host}]:{port}")[0]) == address


def joined_by_hand(tree: ast.AST) -> Iterator[int]:
    """The lines with texts of the form {host}:{port}."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            for host, colon, port in zip(node.values, node.values[1:], node.values[2:], strict=False):
                if (
                    isinstance(host, ast.FormattedValue)
                    and isinstance(colon, ast.Constant)
                    and colon.value == ":"
                    and isinstance(port, ast.FormattedValue)
                    and "port" in ast.unparse(port.value).lower()
                ):
                    yield node.lineno


@pytest.mark.parametrize("package", ["lanloom", "lanloom_embedded"])
def test_one_function_joins_them(package: str) -> None:
    """No other place of the sources joins a host with a port, where an address of IPv6 would lack its brackets."""
    texts = {
        file: file.read_text(encoding="utf-8")
        for file in (SOURCES / package).rglob("*.py")
        if file != SOURCES / "lanloom/text.py"
    }
    likely = {file: text for file, text in texts.items() if "}:{" in text}
    found = [f"{file}:{line}" for file, text in likely.items() for line in joined_by_hand(parse(text))]
    assert found == []


def test_a_text_that_is_joined_by_hand_is_found() -> None:
    """The search for such texts finds one."""
    assert list(joined_by_hand(ast.parse("f'https://{host}:{self.port}/x'"))) == [1]
