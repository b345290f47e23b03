"""NICs whose network is not there, and those that ask for none: they are told so, and keep what they have."""

from collections.abc import Callable

from lanloom.api.ipam import Nic
from lanloom.ipam.manager.decisions import MALFORMED, NETWORK_MISSING, Decision
from lanloom.ipam.manager.informers import BY_NETWORK, IpamInformers
from lanloom.ipam.manager.nicstatus import status_after
from lanloom.ipam.manager.nicwrites import NicWriter


class Homeless:
    """The NICs of networks that do not exist. `epoch_of` gives the epoch of one that does."""

    def __init__(
        self,
        informers: IpamInformers,
        writer: NicWriter,
        epoch_of: Callable[[str], int],
        now: Callable[[], float],
    ) -> None:
        self._informers = informers
        self._writer = writer
        self._epoch_of = epoch_of
        self._now = now

    async def reconcile(self, network: str) -> None:
        """Looks after the NICs of a network that is missing (empty: of none). Raises KubeError."""
        writes = []
        for nic in self._informers.nics.store.by(BY_NETWORK, network):
            if nic.metadata.is_leaving or nic.spec.network not in ("", network):
                continue
            status = status_after(_decision(nic), network, self._epoch_of, {}, self._now())
            if status != nic.status:
                writes.append((nic, status))
        failures = await self._writer.write_all(None, writes)
        if failures:
            raise failures[0]


def _decision(nic: Nic) -> Decision:
    wanted = nic.spec.network
    if wanted:
        message = f"there is no network {wanted}; add it, or name another one"
        return Decision(nic=nic, reason=NETWORK_MISSING, message=message)
    if nic.spec.ips:
        return Decision(
            nic=nic, reason=MALFORMED, message="addresses are asked for without a network; name one"
        )
    return Decision(nic=nic, ips=())
