"""Who makes an object, asked of the API server: what is made for somebody who is there is nobody new.

Only those are looked for of whom it is known that they make such objects, and each has to be there by its uid: anybody
may write owners into what he creates.
"""

from collections.abc import Mapping
from typing import Any

from lanloom.api.core import Pod
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES, VirtualMachineInstance
from lanloom.api.meta import Key, Object
from lanloom.api.resource import Resource
from lanloom.api.workloads import (
    CRON_JOBS,
    DAEMON_SET_TEMPLATES,
    DEPLOYMENTS,
    JOBS,
    REPLICA_SETS,
    STATEFUL_SETS,
    Job,
    ReplicaSet,
)
from lanloom.kube.lookup import look_up
from lanloom.kube.ports import Client

_MAKERS: Mapping[type[Object], tuple[Resource[Any], ...]] = {
    Pod: (VIRTUAL_MACHINE_INSTANCES, REPLICA_SETS, STATEFUL_SETS, DAEMON_SET_TEMPLATES, JOBS),
    VirtualMachineInstance: (VIRTUAL_MACHINES,),
    ReplicaSet: (DEPLOYMENTS,),
    Job: (CRON_JOBS,),
}


async def makers_of(client: Client, item: Object) -> tuple[Object, ...]:
    """Who makes an object, and who makes him; none if one of them is not there, or goes. Raises KubeError."""
    makers: list[Object] = []
    while (found := _controller(item)) is not None:
        resource, key, uid = found
        maker = await look_up(client, resource, key)
        if maker is None or maker.metadata.uid != uid or maker.metadata.is_leaving:
            return ()
        makers.append(maker)
        item = maker
    return tuple(makers)


def _controller(item: Object) -> tuple[Resource[Any], Key, str] | None:
    """The controller of an object, if it is of a kind that makes such objects."""
    for owner in item.metadata.owner_references:
        for resource in _MAKERS.get(type(item), ()) if owner.controller else ():
            if (owner.kind, owner.api_version.partition("/")[0]) == (resource.kind, resource.group):
                return resource, Key(item.metadata.namespace, owner.name), owner.uid
    return None
