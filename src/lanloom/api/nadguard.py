"""Marks on a NAD that is guarded: nobody loses it while it goes, because nobody new is let in and who was is known.

A webhook notes on the NAD each request that it allows to refer to it, before the API server stores the object. Whoever
removes the NAD marks it as draining first, waits for what was noted, and looks for users then. The marks are those of
isolated networks, whose NADs are guarded by their label; NADs of other features are guarded by `GUARDED`.
"""

from lanloom.api.dummy import ADMITTED, DRAINING

GUARDED = "lanloom.io/guarded-for"
"""Annotation of a guarded NAD: the object that it was made for, such as `LAN default/blue`."""

__all__ = ["ADMITTED", "DRAINING", "GUARDED"]
