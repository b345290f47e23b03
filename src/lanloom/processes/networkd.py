"""The check of `lanloom doctor` about systemd-networkd, which configures each link that a file of its matches."""

from pathlib import Path

from lanloom.node.errors import LinkError
from lanloom.node.marks import MARK
from lanloom.node.ports import Link, Links
from lanloom.runtime.feature import Check
from lanloom.text import listed

_NAME = "systemd-networkd"


async def check_networkd(kernel: Links, run: Path) -> tuple[Check, ...]:
    """Check that systemd-networkd does not manage links of Lanloom, or their ports, by its state below `/run/systemd`.

    Without that directory there is nothing to see: systemd is not here, as in a container.
    """
    if not _is_there(run):
        return ()
    try:
        links = (await kernel.dump()).links
    except LinkError as error:
        remedy = "Run as root, on the node itself."
        return (Check(name=_NAME, result="failed", found=str(error), remedy=remedy),)
    marked = {name for name, link in links.items() if link.alias.startswith(MARK)}
    managed = {
        name: file
        for name, link in sorted(links.items())
        if marked & {name, link.master} and (file := _file(link, run))
    }
    if not managed:
        return (Check(name=_NAME, result="ok", found="it manages no link of Lanloom"),)
    found = f"it manages {listed(f'{name} by {file}' for name, file in managed.items())}"
    remedy = (
        "It takes ports out of their bridges, and adds addresses and routes. Exclude these links by a file that sorts "
        "before the others, such as /etc/systemd/network/05-unmanaged.network with `[Match]`, "
        f"`Name={' '.join(managed)}`, `[Link]`, `Unmanaged=yes`; then run `networkctl reload`."
    )
    return (Check(name=_NAME, result="warning", found=found, remedy=remedy),)


def _is_there(directory: Path) -> bool:
    return directory.is_dir()


def _file(link: Link, run: Path) -> str:
    """Return the file by which systemd-networkd configures a link; empty where it leaves the link alone."""
    try:
        lines = (run / f"netif/links/{link.index}").read_text().splitlines()
    except OSError:
        return ""
    state = dict(line.split("=", 1) for line in lines if "=" in line)
    return "" if state.get("ADMIN_STATE") == "unmanaged" else state.get("NETWORK_FILE", "")
