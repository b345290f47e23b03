"""A finding of `lanloom doctor`, for the features that have something to check in a cluster."""

from typing import Literal

from msgspec import Struct


class Check(Struct, frozen=True, kw_only=True):
    """One finding. `remedy` is empty without a problem. What could not be looked at is unknown, and no problem."""

    name: str
    result: Literal["ok", "warning", "failed", "unknown"]
    found: str
    remedy: str = ""
