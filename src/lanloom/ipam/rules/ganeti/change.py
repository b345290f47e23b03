"""What an upgrade or a downgrade gives: the text, and what there is to tell of it."""

from msgspec import Struct


class Changed(Struct, frozen=True, kw_only=True):
    """A text that was made anew, and how much of it is new.

    `steps` tell what becomes of each network, `notes` what was corrected.
    """

    text: str
    networks: int = 0
    nics: int = 0
    steps: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
