"""What users should know of their pods' addresses, as Events on the pod."""

from lanloom.api.cni import ADDRESSES
from lanloom.api.core import PODS, Pod
from lanloom.ipam.agent.holders import Holder
from lanloom.ipam.agent.pods import attachments
from lanloom.ipam.agent.protocol import TRY_AGAIN, CniError, Request
from lanloom.ipam.agent.wanted import unused
from lanloom.kube.events import Recorder, reference


class Notes:
    """Writes Events; never fails a call."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    async def refused(self, pod: Pod, request: Request, error: CniError) -> None:
        """A pod gets no addresses, and waiting alone won't help."""
        if error.code != TRY_AGAIN:
            message = f"No addresses for interface {request.interface}: {error.msg}"
            await self._recorder.event(reference(PODS, pod), "Warning", "NoAddresses", message)

    async def unused(self, pod: Pod, holder: Holder) -> None:
        """The pod's annotation asks for addresses of an interface that it has not got: a slip of the pen, perhaps."""
        told = attachments(pod)
        if not told:
            return  # what else it is attached to is not known
        own = pod.metadata.namespace
        nads = [item.nad for item in told]
        names = {*holder.known_as, "eth0", *(item.interface for item in told), *map(str, nads)}
        names.update(nad.name for nad in nads if nad.namespace == own)
        names.update(holder.others)
        if left := unused(pod.metadata.annotations, frozenset(names)):
            message = (
                f"Annotation {ADDRESSES}: {', '.join(left)} is no interface and no NAD of this pod; ignored"
            )
            await self._recorder.event(reference(PODS, pod), "Warning", "UnusedAddresses", message[:1000])
