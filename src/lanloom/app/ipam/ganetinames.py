"""What networks, node groups and instances of Ganeti's are called here, where not everything can be a name."""

from collections.abc import Callable, Iterable

from lanloom.ipam.rules.addresses import shown
from lanloom.ipam.rules.names import imported_name


def names_here(
    what: str, names: Iterable[str], is_allowed: Callable[[str], bool], notes: list[str]
) -> dict[str, str]:
    """The name of each here: the same where it is allowed, else one that nothing has; that is noted."""
    every = tuple(dict.fromkeys(names))
    found = {name: name for name in every if is_allowed(name)}
    taken = set(found)
    for name in every:
        if name not in found:
            found[name] = imported_name(name, taken)
            taken.add(found[name])
            notes.append(f"{what} {shown(name)} is called {found[name]} here")
    return found
