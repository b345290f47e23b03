"""How `lanloom instance info` looks."""

from typing import TYPE_CHECKING

from lanloom.app.ipam.instances import READY
from lanloom.app.ipam.instanceviews import NicView, views
from lanloom.cli.console import console as make_console

if TYPE_CHECKING:
    from lanloom.app.ipam.instances import Instance


def print_instance(instance: "Instance") -> None:
    """An instance with all of its NICs."""
    console = make_console()
    console.print(f"{instance.kind} {instance.namespace}/{instance.name}", style="bold", markup=False)
    for view in views(instance):
        title = f"  NIC {view.index}" + (f" ({view.name})" if view.name else "")
        console.print(title, style="" if view.state == READY else "yellow", markup=False)
        for line in _lines(view):
            console.print(f"    {line}", markup=False, soft_wrap=True)


def _lines(view: NicView) -> list[str]:
    asked = [] if view.state == READY else [f"Asks for: {', '.join(view.wanted) or 'none'}, {view.state}"]
    if view.message:
        asked.append(view.message)
    own = (("Mode", view.mode), ("Link", view.link), ("VLAN", view.vlan))
    return [
        f"Network: {view.network or '-'}",
        f"IPs: {', '.join(view.ips) or '-'}",
        *asked,
        f"MAC: {view.mac or '-'}",
        *(f"{title}: {text}" for title, text in own if text),
        f"UUID: {view.uuid}",
        f"Object: {view.object}",
    ]
