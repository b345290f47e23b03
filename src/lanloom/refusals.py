"""What a rule raises where it says no. A message says what is wrong, of which object and field, and what to do.

Refusal
├── Malformed   the input can never be right, whatever the state is (exit status 2)
└── Denied      the state does not allow it; nothing was changed (exit status 1)
"""

from collections.abc import Iterable


class Refusal(Exception):
    """Base of all of them; the message is the user's."""


class Malformed(Refusal):
    """An option, field, name, address or range that can't be read or can never be."""


class Denied(Refusal):
    """Well formed, but the state forbids it; nothing was changed."""


def title_for(reader: str, kind: str, namespace: str, name: str) -> str:
    """Name an object in a message to users of the namespace `reader`.

    Of another namespace, which they may not be allowed to read, the message says only that there is such an object. An
    administrator finds it by listing the kind in all namespaces. Objects without a namespace are named.
    """
    if namespace in ("", reader):
        return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"
    return f"a {kind} of another namespace"


def titles_for(reader: str, titles: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """List objects in a message to users of the namespace `reader`; each has its namespace and its title.

    Those of other namespaces are counted only, as in `title_for`.
    """
    every = list(titles)
    own = tuple(title for namespace, title in every if namespace == reader)
    others = len(every) - len(own)
    return (*own, f"{others} of other namespaces") if others else own
