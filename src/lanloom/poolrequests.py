"""Requests for an address of any pool of a network, and the message where nothing is left of what was asked for."""

from collections.abc import Mapping
from typing import Literal

ANY = "pool"
"""The request where there is no other."""

AUTOMATIC: Mapping[str, Literal[4, 6] | None] = {ANY: None, "pool4": 4, "pool6": 6}
"""Requests for the lowest free address of any pool, and its IP version; None for either. Others name a pool."""


def full_message(request: str, network: str, disabled: int) -> str:
    """Return that nothing is left of a request, and a remedy; `disabled` pools of it have so many free addresses."""
    what = f"network {network}"
    if version := AUTOMATIC.get(request):
        what = f"every IPv{version} pool of {what}"
    elif request not in AUTOMATIC:
        what = f"pool {request} of {what}"
    if not disabled:
        return f"{what} is full; add a pool, or release addresses"
    free = f"{disabled} free address{'es' * (disabled > 1)}"
    return f"{what} is full, but for {free} in disabled pools; enable a pool, add one, or release addresses"
