"""What `lanloom doctor` checks of VLAN networks in a cluster: what Harvester's controller left when it was removed."""

from lanloom.api import names
from lanloom.features.vlan.migrate import read_snapshot
from lanloom.features.vlan.rules.migration.adopt import stuck
from lanloom.features.vlan.rules.migration.plans import Snapshot
from lanloom.kube.errors import KubeError, NotFound
from lanloom.kube.ports import Client
from lanloom.runtime.feature import Check
from lanloom.text import listed

_NAME = "objects of Harvester"


async def check(client: Client) -> tuple[Check, ...]:
    """Check that no object waits for Harvester's network controller after that was removed.

    Without the kinds of VLAN networks there is nothing to see; they have checks of their own.
    """
    try:
        return (check_of(await read_snapshot(client)),)
    except NotFound:
        return ()
    except KubeError as error:
        remedy = "Use a kubeconfig that may read Nodes, CRDs, webhook configurations and service accounts."
        return (Check(name=_NAME, result="warning", found=str(error), remedy=remedy),)


def check_of(now: Snapshot) -> Check:
    """Return what is wrong without the controller: objects that can't be deleted, and addresses that are not served."""
    if now.controller:
        return Check(name=_NAME, result="ok", found="its network controller runs")
    if now.webhooks and not now.webhook:
        remedy = "Run lanloom harvester adopt, which deletes them."
        text = (
            f"the webhook is gone, and its configurations {names.HARVESTER_WEBHOOK} refuse writes of networks"
        )
        return Check(name=_NAME, result="failed", found=text, remedy=remedy)
    if found := stuck(now):
        remedy = "Run lanloom harvester adopt, which removes the finalizers of the controller."
        text = f"the controller is gone, and these can't be deleted: {listed(found)}"
        return Check(name=_NAME, result="failed", found=text, remedy=remedy)
    if unserved := [item.metadata.name for item in now.host_networks]:
        remedy = "Run lanloom harvester adopt, which replaces them by NADs."
        text = f"the controller is gone, and no program serves the HostNetworkConfigs {listed(unserved)}"
        return Check(name=_NAME, result="warning", found=text, remedy=remedy)
    return Check(name=_NAME, result="ok", found="nothing waits for a controller that is gone")
