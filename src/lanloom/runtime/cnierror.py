"""The error of a CNI call, and the codes that CNI gives a meaning."""

INCOMPATIBLE, UNKNOWN_CONTAINER, BAD_ENVIRONMENT, NOT_DECODED, BAD_CONFIG, TRY_AGAIN, NOT_AVAILABLE = (
    1,
    3,
    4,
    6,
    7,
    11,
    50,
)
"""CNI's codes for errors."""

REFUSED, DIFFERENT = 100, 101
"""Lanloom's own: what is asked for is not allowed; a CHECK found another state than the result of ADD."""


class CniError(Exception):
    """A call that fails; the texts are what the runtime shows."""

    def __init__(self, code: int, msg: str, details: str = "") -> None:
        super().__init__(msg)
        self.code = code
        self.msg = msg
        self.details = details
