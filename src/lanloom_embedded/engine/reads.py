"""Reading: one object, or a list of one consistent version in pages.

A page's token names the version and the last key, so that it holds after a restart; it is good as long as the
changes since then are remembered.
"""

import base64
import binascii
from bisect import bisect_right
from collections.abc import Callable, Sequence

import msgspec
from msgspec import Struct

from lanloom.api.meta import Key
from lanloom.runtime.https import errors, fields
from lanloom_embedded.engine.ledger import Ledger, place
from lanloom_embedded.engine.storage import Stored
from lanloom_embedded.kinds import GroupPlural, ServedKind
from lanloom_embedded.selectors import parse_fields, parse_labels

_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. "
    "You must start a new list without the continue parameter."
)


_LARGEST_VERSION = 2**64 - 1
_VERSION_DIGITS = 20
_TOKEN_VERSION = "meta.k8s.io/v1"


class Selection(Struct, frozen=True):
    """A selection of a resource's objects. Selectors are in Kubernetes' own syntax."""

    namespace: str = ""
    labels: str = ""
    fields: str = ""

    def test(self, resource: GroupPlural) -> Callable[[Stored], bool] | None:
        """A test of states, None when every one passes. Raises BadRequest."""
        labels = parse_labels(self.labels) if self.labels else None
        chosen = parse_fields(self.fields, resource) if self.fields else None
        if labels is None and chosen is None:
            return None
        name = chosen.exact("metadata.name") if chosen is not None else None

        def selects(state: Stored) -> bool:
            return (
                (name is None or state.key.name == name)
                and (labels is None or labels.matches(state.labels))
                and (chosen is None or chosen.matches(state.raw()))
            )

        return selects


class ListOptions(Struct, frozen=True, kw_only=True):
    """How to list: from which version, and which page."""

    resource_version: str = ""
    match: str = ""
    limit: int = 0
    continue_token: str = ""


NEWEST = ListOptions()


class Page(Struct, frozen=True):
    """A part of a list. `continue_token` is empty on the last page; `remaining` is None when unknown."""

    items: Sequence[Stored]
    version: int
    continue_token: str = ""
    remaining: int | None = None


class _Token(Struct, frozen=True):
    v: str
    rv: int = 0
    start: str = ""


class Reader:
    """Reads committed objects."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def get(self, kind: ServedKind, namespace: str, name: str, version: str = "") -> Stored:
        """One object, not older than `version`. Raises NotFound, BadRequest, Timeout."""
        wanted = parse_version(version)
        if wanted > self._ledger.version:
            raise future_version(wanted, self._ledger.version)
        found = self._ledger.table(kind.key).objects.get(Key(namespace, name))
        if found is None:
            raise errors.not_found(kind.resource, name)
        return found

    def list_page(self, kind: ServedKind, selection: Selection, options: ListOptions = NEWEST) -> Page:
        """Return a page. Raises BadRequest, Expired, Timeout (a version that isn't there yet)."""
        token = _read_token(options.continue_token) if options.continue_token else None
        if token is not None and options.resource_version not in ("", "0"):
            raise errors.BadRequest("specifying resource version is not allowed when using continue")
        version = token.rv if token else self._version(options)
        if version < self._ledger.compacted:
            raise _too_old(token is not None, version, self._ledger.compacted)
        items = self._ledger.at(kind.key, selection.namespace, version)
        start = 0
        if token is not None:
            start = bisect_right(items, token.start, key=lambda state: place(state.key))
        return _page(items[start:], selection.test(kind.key), options.limit, version)

    def _version(self, options: ListOptions) -> int:
        """Return the version to show: the newest unless an exact one is asked for."""
        wanted = parse_version(options.resource_version)
        newest = self._ledger.version
        _check_match(options, wanted)
        if wanted > newest:
            raise future_version(wanted, newest)
        exact = options.match == "Exact" or (not options.match and options.limit > 0 and wanted > 0)
        return wanted if exact and wanted else newest


def parse_version(text: str) -> int:
    """Return a resourceVersion, a number of 64 bits; the empty one is 0. Raises BadRequest."""
    if text and not (text.isascii() and text.isdigit()):
        raise _bad_version(text, "invalid syntax")
    digits = text.lstrip("0")
    if len(digits) > _VERSION_DIGITS or int(digits or 0) > _LARGEST_VERSION:
        raise _bad_version(text, "value out of range")
    return int(digits or 0)


def _bad_version(text: str, why: str) -> errors.BadRequest:
    quoted = msgspec.json.encode(text).decode()
    return errors.BadRequest(
        f"resourceVersion: Invalid value: {quoted}: strconv.ParseUint: parsing {quoted}: {why}"
    )


def future_version(wanted: int, newest: int) -> errors.Timeout:
    """Return the refusal of a version that is not there yet."""
    message = f"Too large resource version: {wanted}, current: {newest}"
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    return errors.Timeout(message, details={"causes": causes, "retryAfterSeconds": 1})


def _check_match(options: ListOptions, wanted: int) -> None:
    field = "resourceVersionMatch"
    if not options.match:
        return
    if not options.resource_version:
        found = fields.forbidden(field, f"{field} is forbidden unless resourceVersion is provided")
    elif options.match not in ("Exact", "NotOlderThan"):
        found = fields.not_supported(field, options.match, ("Exact", "NotOlderThan", ""))
    elif options.match == "Exact" and not wanted:
        found = fields.forbidden(field, f'{field} "exact" is forbidden for resourceVersion "0"')
    else:
        return
    raise errors.invalid("ListOptions.meta.k8s.io", "", [found])


def _page(
    items: Sequence[Stored], selects: Callable[[Stored], bool] | None, limit: int, version: int
) -> Page:
    if limit <= 0:
        return Page([state for state in items if selects is None or selects(state)], version)
    chosen: list[Stored] = []
    for index, state in enumerate(items):
        if selects is not None and not selects(state):
            continue
        if len(chosen) == limit:
            remaining = len(items) - index if selects is None else None
            return Page(chosen, version, _write_token(version, chosen[-1].key), remaining)
        chosen.append(state)
    return Page(chosen, version)


def _write_token(version: int, last: Key) -> str:
    token = _Token(_TOKEN_VERSION, version, place(last))
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode().rstrip("=")


def _read_token(text: str) -> _Token:
    try:
        token = msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=_Token)
    except (binascii.Error, ValueError) as error:
        raise errors.BadRequest(f"invalid continue token: continue key is not valid: {error}") from None
    if token.v != _TOKEN_VERSION:
        raise errors.BadRequest(
            "invalid continue token: continue key is not valid: "
            f"server does not recognize this encoded version {token.v}"
        )
    return token


def _too_old(paging: bool, version: int, compacted: int) -> errors.Expired:
    if paging:
        return errors.Expired(_TOO_OLD)
    return errors.Expired(f"The resourceVersion for the provided list is too old: {version} ({compacted})")
