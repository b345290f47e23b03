"""The NIC that a call is to have: what the pod or its machine asks for, and how that is written down."""

import json
from collections.abc import Mapping
from typing import Any

from msgspec import to_builtins

from lanloom.api.cni import ADDRESSES, CONTAINER, LINK, NAD, NETWORK_NAME, NODE_LABEL, node_value
from lanloom.api.ipam import FINALIZER, POD, Nic, NicSpec
from lanloom.api.meta import ObjectMeta
from lanloom.ipam.agent.config import MOST, IpamConfig, parse_wanted
from lanloom.ipam.agent.holders import Holder
from lanloom.ipam.agent.protocol import BAD_CONFIG, CniError, Request

_FORM = 'it must be a JSON object such as {"net1": ["192.0.2.4", "pool"]}'


def asked_for(annotations: Mapping[str, str], holder: Holder, config: IpamConfig) -> tuple[str, ...]:
    """What a NIC's `spec.ips` is to be: what the pod's annotation says, else the configuration. Raises CniError."""
    text = annotations.get(ADDRESSES)
    if text is None:
        return config.wanted
    told = _parse(text)
    for name in holder.known_as:
        if name in told:
            return told[name]
    return config.wanted


def unused(annotations: Mapping[str, str], names: frozenset[str]) -> tuple[str, ...]:
    """The entries of the annotation that mean none of these interfaces and NADs. Raises CniError."""
    return tuple(sorted(set(_parse(annotations.get(ADDRESSES, "{}"))) - names))


def _parse(text: str) -> dict[str, tuple[str, ...]]:
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        raise CniError(BAD_CONFIG, f"annotation {ADDRESSES} is not valid JSON; {_FORM}") from None
    if not isinstance(told, dict) or len(told) > MOST:
        raise CniError(BAD_CONFIG, f"annotation {ADDRESSES} can't be read; {_FORM}")
    return {name: _list(name, value) for name, value in told.items()}


def _list(name: str, value: Any) -> tuple[str, ...]:
    field = f"annotation {ADDRESSES}: {name[:60]!r}"
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise CniError(BAD_CONFIG, f"{field}: must be a list of addresses and names of pools; {_FORM}")
    if not 0 < len(value) <= MOST:
        raise CniError(BAD_CONFIG, f"{field}: must have 1 to {MOST} entries")
    return parse_wanted(field, value)


def nic_body(
    holder: Holder, network: str, ips: tuple[str, ...], request: Request, node: str
) -> dict[str, Any]:
    """A new NIC, marked so that it can be told whether it is still of use; a machine's moves about."""
    own = holder.owner.kind == POD
    marks = {NETWORK_NAME: request.network_name, CONTAINER: request.container, LINK: request.interface}
    if not own:
        marks = {NAD: holder.nad} if holder.nad else {}
    meta = ObjectMeta(
        name=holder.nic,
        namespace=holder.namespace,
        labels={NODE_LABEL: node_value(node)} if own else {},
        annotations=marks,
        finalizers=(FINALIZER,),
        owner_references=(holder.reference,),
    )
    spec = NicSpec(
        owner=holder.owner, network=network, ips=ips, index=holder.index, interface=holder.interface
    )
    return {"metadata": to_builtins(meta), "spec": to_builtins(spec)}


def change(nic: Nic, network: str, ips: tuple[str, ...]) -> dict[str, Any] | None:
    """What must be patched so that a NIC that is there asks for this, None for nothing."""
    if (nic.spec.network, nic.spec.ips) == (network, ips):
        return None
    spec = {"network": network, "ips": list(ips), "release": None}
    return {"metadata": {"resourceVersion": nic.metadata.resource_version}, "spec": spec}
