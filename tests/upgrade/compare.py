"""What an upgrade may change of stored objects, and what it may not. Pure."""

from collections.abc import Iterator
from typing import Any

Raw = dict[str, Any]

IDENTITY = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "finalizers")


def title(item: Raw) -> str:
    """Kind, namespace and name of an object."""
    meta = item["metadata"]
    return f"{item['kind']} {meta.get('namespace', '')}/{meta['name']}"


def losses(before: Raw, after: Raw) -> list[str]:
    """Return what an object had that it has no more, or has differently: in identity, annotations, spec, addresses."""
    found = [
        f"{title(before)}: metadata.{field}"
        for field in IDENTITY
        if before["metadata"].get(field) != after["metadata"].get(field)
    ]
    pairs = (
        ("metadata.labels", before["metadata"].get("labels"), after["metadata"].get("labels")),
        ("metadata.annotations", before["metadata"].get("annotations"), after["metadata"].get("annotations")),
        ("spec", before.get("spec"), after.get("spec")),
        ("status", facts(before), facts(after)),
    )
    for name, one, other in pairs:
        found += [f"{title(before)}: {path}" for path in missing(one or {}, other or {}, name)]
    return found


def missing(before: Any, after: Any, path: str) -> Iterator[str]:
    """Yield the paths at which `after` has not what `before` has; it may have more."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in before.items():
            yield from missing(value, after.get(key), f"{path}.{key}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from missing(one, other, f"{path}[{number}]")
    elif before != after:
        yield f"{path}: {before!r} is {after!r}"


def facts(item: Raw) -> Raw:
    """Return what a status has that must outlive every upgrade: addresses, links, and that the object is ready.

    A LAN was ready for 0.1.0 without a word of any node, and is not for this version. The agents' hosts are made again
    with them, so DHCP may give them other addresses.
    """
    status = item.get("status") or {}
    interfaces = {each["name"]: each["vlanId"] for each in status.get("interfaces", ())}
    kept = {name: status[name] for name in ("ips", "mac", "bridge", "bridgeName") if name in status}
    return kept | {"interfaces": interfaces} | ({"ready": True} if _is_ready(item) else {})


def _is_ready(item: Raw) -> bool:
    found = (item.get("status") or {}).get("conditions", ())
    return item["kind"] != "LAN" and any(
        each["type"].lower() == "ready" and each["status"] == "True" for each in found
    )
