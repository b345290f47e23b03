"""What blocks the deletion of a NetworkSwap, and of NADs between which one moves a NIC."""

from lanloom.api.liveupdate import FINAL, FINALIZER, NETWORK_SWAPS, NetworkSwap
from lanloom.kube.ports import Reader
from lanloom.runtime.blockers import MANAGER, Answer, Blocker, DeletionQuestion


async def _ask(_client: Reader, swap: NetworkSwap) -> Answer:
    phase = swap.status.phase
    if phase in FINAL or phase in ("", "Pending"):
        return Answer()
    return Answer(
        (
            Blocker(
                what=f"finalizer {FINALIZER}",
                whose=MANAGER,
                why=f"the swap is {phase}: {swap.status.message}",
                remedy="Wait until it has ended, which takes some minutes at most.",
            ),
        )
    )


BLOCKERS = (DeletionQuestion(resource=NETWORK_SWAPS, finalizer=FINALIZER, ask=_ask),)
