"""Profiles as the VLAN feature writes them, with what a test wants different."""


def uuid(number: int) -> str:
    """A UUID that is a test's own."""
    return f"00000000-0000-4000-8000-{number:012d}"


def profile(
    number: int = 1,
    *,
    vid: int = 2012,
    parent: str = "c-br",
    device: str | None = None,
    ipv4: str = "method=auto\ndhcp-timeout=20",
    ipv6: str = "method=disabled",
) -> bytes:
    """A profile file's content; an empty `device` leaves the name to NetworkManager."""
    name = f"{parent}.{vid}" if device is None else device
    interface = f"interface-name={name}\n" if name else ""
    return (
        f"[connection]\nid=test-{number}\nuuid={uuid(number)}\ntype=vlan\n{interface}autoconnect=true\n\n"
        f"[vlan]\nid={vid}\nparent={parent}\nflags=1\n\n"
        f"[ipv4]\n{ipv4}\nnever-default=true\nignore-auto-dns=true\nmay-fail=false\n\n"
        f"[ipv6]\n{ipv6}\n\n[user]\nlanloom.owner=c/{vid}\n"
    ).encode()


def static(address: str, *, dad_timeout: int = 300) -> str:
    """The [ipv4] section of a static address; `dad_timeout` in milliseconds."""
    return f"method=manual\naddress1={address}\ndad-timeout={dad_timeout}"
