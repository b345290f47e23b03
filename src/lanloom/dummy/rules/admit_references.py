"""References to the NADs of isolated networks: which are new with a request, and why one is refused."""

from collections.abc import Iterable, Mapping

from lanloom.api.cni import MULTUS_NETWORKS
from lanloom.api.core import Pod
from lanloom.api.dummy import DRAINING, NAME_ANNOTATION, UID_LABEL
from lanloom.api.kubevirt import VirtualMachine, VirtualMachineInstance, VirtualMachineInstanceSpec, nad_of
from lanloom.api.meta import Key, Object
from lanloom.api.multus import DEFAULT_NETWORK, NetworkAttachmentDefinition
from lanloom.api.references import ANY, references_of

Place = tuple[str, Mapping[str, str], VirtualMachineInstanceSpec]
"""Where an object names networks: the path before it, the annotations, the spec of a machine."""


def new_references(new: Object, old: Object | None) -> tuple[Key, ...]:
    """The NADs to which an object refers and did not before, ordered.

    What can't be read is left out. Multus does not attach a pod whose networks it can't read, and whoever asks for the
    users of a network counts such an object anyway; to refuse it would be to judge what is nobody's business here.
    """
    before = references_of(old).networks if old is not None else frozenset[Key]()
    return tuple(sorted(references_of(new).networks - before))


def meant(nad: Key, claimed: Iterable[Key]) -> tuple[Key, ...]:
    """The NADs that a reference may mean: itself, or where it leaves the namespace open, those that somebody claims."""
    if nad.namespace != ANY:
        return (nad,)
    return tuple(sorted({key for key in claimed if key.name == nad.name}))


def is_isolated(nad: NetworkAttachmentDefinition) -> bool:
    """Whether the NAD is that of an isolated network."""
    return UID_LABEL in nad.metadata.labels


def is_closed(nad: NetworkAttachmentDefinition) -> bool:
    """Whether nobody new may refer to it, because it is about to go."""
    return DRAINING in nad.metadata.annotations or nad.metadata.is_leaving


def going(item: Object, reference: Key, nad: NetworkAttachmentDefinition) -> str:
    """Why an object may not refer to a NAD that is closed."""
    name = nad.metadata.annotations.get(NAME_ANNOTATION, "")
    network = f"its DummyClusterNetwork {name}" if name else "its DummyClusterNetwork"
    return (
        f"{title_of(item)}: {_field(item, reference)}: NetworkAttachmentDefinition {nad.metadata.key} can't be used "
        f"any more because {network} is being deleted; name another network, or leave it out"
    )


def title_of(item: Object) -> str:
    """An object for a message. One whose name the API server is still to make is told by its beginning."""
    name = item.metadata.name or f"{item.metadata.generate_name}…"
    return f"{type(item).__name__} {Key(item.metadata.namespace, name)}"


def _field(item: Object, nad: Key) -> str:
    """Where an object names the NAD."""
    prefix, annotations, spec = _place(item)
    for index, network in enumerate(spec.networks):
        if network.multus is None:
            continue
        found = nad_of(network.multus, item.metadata.namespace)
        if found == nad or (nad.namespace == ANY and found.name == nad.name):
            return f"{prefix}spec.networks[{index}].multus.networkName"
    name = DEFAULT_NETWORK if nad.name in annotations.get(DEFAULT_NETWORK, "") else MULTUS_NETWORKS
    return f"{prefix}metadata.annotations[{name}]"


def _place(item: Object) -> Place:
    match item:
        case VirtualMachine():
            template = item.spec.template
            if template is not None:
                return "spec.template.", template.metadata.annotations, template.spec
        case VirtualMachineInstance():
            return "", item.metadata.annotations, item.spec
        case Pod():
            return "", item.metadata.annotations, VirtualMachineInstanceSpec()
    return "", {}, VirtualMachineInstanceSpec()
