"""Connections through a SOCKS 5 proxy (RFC 1928, RFC 1929). The proxy looks names up, as with kubectl."""

import asyncio
import socket
import struct

from lanloom.text import authority

_REFUSALS = {
    1: "general failure",
    2: "connection not allowed",
    3: "network unreachable",
    4: "host unreachable",
    5: "connection refused",
    6: "TTL expired",
    7: "command not supported",
    8: "address type not supported",
}


async def connect_by_socks(
    proxy: str, proxy_port: int, login: tuple[str, str], host: str, port: int
) -> socket.socket:
    """Return a connection to a host by way of the proxy; `login` is a user and a password. Raises OSError."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(proxy, proxy_port, type=socket.SOCK_STREAM)
    family, kind, protocol, _, address = found[0]
    opened = socket.socket(family, kind, protocol)
    try:
        opened.setblocking(False)
        await loop.sock_connect(opened, address)
        await _greet(opened, *login)
        await _request(opened, host, port)
    except BaseException:
        opened.close()
        raise
    return opened


async def _greet(opened: socket.socket, user: str, password: str) -> None:
    """Agree on how we log in: with a password if there is one."""
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(opened, b"\x05\x02\x00\x02" if user else b"\x05\x01\x00")
    version, method = await _receive(opened, 2)
    if version != 5 or method == 0xFF:
        raise OSError("the proxy speaks no SOCKS 5, or wants another login")
    if method == 2:
        name, secret = user.encode(), password.encode()
        login = bytes([1, len(name)]) + name + bytes([len(secret)]) + secret
        await loop.sock_sendall(opened, login)
        if (await _receive(opened, 2))[1]:
            raise OSError("the SOCKS proxy refuses the user or the password of proxy-url")


async def _request(opened: socket.socket, host: str, port: int) -> None:
    """Ask for a connection to a host, and read the answer to its end."""
    request = b"\x05\x01\x00" + _destination(host) + struct.pack("!H", port)
    await asyncio.get_running_loop().sock_sendall(opened, request)
    _, code, _, kind = await _receive(opened, 4)
    if code:
        raise OSError(
            f"the SOCKS proxy can't connect to {authority(host, port)}: {_REFUSALS.get(code, f'error {code}')}"
        )
    length = {1: 4, 4: 16}.get(kind) or (await _receive(opened, 1))[0]
    await _receive(opened, length + 2)


def _destination(host: str) -> bytes:
    for family, kind in ((socket.AF_INET, b"\x01"), (socket.AF_INET6, b"\x04")):
        try:
            return kind + socket.inet_pton(family, host)
        except OSError:
            continue
    name = host.encode()
    return b"\x03" + bytes([len(name)]) + name


async def _receive(opened: socket.socket, length: int) -> bytes:
    """Return so many bytes. Raises OSError at the end of the connection."""
    found = b""
    while len(found) < length:
        part = await asyncio.get_running_loop().sock_recv(opened, length - len(found))
        if not part:
            raise OSError("the SOCKS proxy closed the connection")
        found += part
    return found
