"""Pods, and the workloads that make them. They are stored and shown; what runs them is another's business.

Fields that only a kubelet or a scheduler understands are kept as they are.
"""

from lanloom_embedded.builtin.shapes import (
    LABEL_SELECTOR,
    OBJECT_META,
    anything,
    conditions,
    flag,
    int_or_string,
    integer,
    keyed,
    kind,
    mapping,
    record,
    small,
    text,
    time,
    values,
)
from lanloom_embedded.kinds import Raw, ServedKind

_RESOURCES = record(
    "Resources of the container.",
    {
        "limits": mapping("The most that it may use.", int_or_string()),
        "requests": mapping("What it needs.", int_or_string()),
        "claims": values("Devices that were claimed.", anything()),
    },
)

_PORT = record(
    "A port of the container.",
    {
        "containerPort": small("The port's number."),
        "hostIP": text("Address of the node that carries it."),
        "hostPort": small("Port of the node."),
        "name": text("The port's name."),
        "protocol": text("TCP, UDP or SCTP.", default="TCP"),
    },
    required=("containerPort",),
)

_ENV = record(
    "A variable of the environment.",
    {
        "name": text("Its name."),
        "value": text("Its value."),
        "valueFrom": anything("Where its value is from."),
    },
    required=("name",),
)

_MOUNT = record(
    "A volume in the container's file system.",
    {
        "name": text("Name of the volume."),
        "mountPath": text("Where it is mounted."),
        "mountPropagation": text("How mounts travel between host and container."),
        "readOnly": flag("Whether it can't be written."),
        "recursiveReadOnly": text("Whether what is mounted below can't be written either."),
        "subPath": text("Path within the volume."),
        "subPathExpr": text("Path within the volume, with variables."),
    },
    required=("name", "mountPath"),
)

_CONTAINER_FIELDS: dict[str, Raw] = {
    "name": text("The container's name."),
    "image": text("The image that it runs."),
    "imagePullPolicy": text("Always, IfNotPresent or Never."),
    "command": values("The program, instead of the image's."),
    "args": values("The program's arguments."),
    "workingDir": text("The directory in which it starts."),
    "env": keyed("Variables of its environment.", "name", _ENV),
    "envFrom": values("Sources of more variables.", anything()),
    "ports": keyed("Its ports.", "containerPort", _PORT),
    "resources": _RESOURCES | {"default": {}},
    "resizePolicy": values("What happens when its resources change.", anything()),
    "restartPolicy": text("Always for an init container that keeps running."),
    "volumeMounts": keyed("Volumes in its file system.", "mountPath", _MOUNT),
    "volumeDevices": keyed("Block devices.", "devicePath", anything()),
    "livenessProbe": anything("How it is found to be alive."),
    "readinessProbe": anything("How it is found to be ready."),
    "startupProbe": anything("How it is found to have started."),
    "lifecycle": anything("What runs after its start and before its end."),
    "securityContext": anything("Its rights."),
    "stdin": flag("Whether it has a standard input."),
    "stdinOnce": flag("Whether the input closes after the first user."),
    "tty": flag("Whether it has a terminal."),
    "terminationMessagePath": text("File of its last words.", default="/dev/termination-log"),
    "terminationMessagePolicy": text("Where its last words come from.", default="File"),
}
_CONTAINER = record("A container.", _CONTAINER_FIELDS, required=("name",))

_TOLERATION = record(
    "A mark of nodes that the pod tolerates.",
    {
        "key": text("Key of the mark."),
        "operator": text("Exists or Equal."),
        "value": text("Value of the mark."),
        "effect": text("Effect of the mark."),
        "tolerationSeconds": integer("For how long it is tolerated."),
    },
)

_POD_SPEC_FIELDS: dict[str, Raw] = {
    "activeDeadlineSeconds": integer("Seconds after which the pod fails."),
    "affinity": anything("Where the pod would rather run."),
    "automountServiceAccountToken": flag("Whether it gets its account's token."),
    "containers": keyed("The pod's containers.", "name", _CONTAINER),
    "dnsConfig": anything("Its resolver's configuration."),
    "dnsPolicy": text("Where its resolver's configuration is from.", default="ClusterFirst"),
    "enableServiceLinks": flag("Whether services appear in its environment.", default=True),
    "ephemeralContainers": keyed("Containers for debugging.", "name", anything()),
    "hostAliases": keyed("Lines of its hosts file.", "ip", anything()),
    "hostIPC": flag("Whether it shares the node's IPC."),
    "hostNetwork": flag("Whether it shares the node's network."),
    "hostPID": flag("Whether it sees the node's processes."),
    "hostUsers": flag("Whether it shares the node's users."),
    "hostname": text("Its host name."),
    "imagePullSecrets": keyed("Secrets for the pulling of images.", "name", record("", {"name": text()})),
    "initContainers": keyed("Containers that run before the others.", "name", _CONTAINER),
    "nodeName": text("The node on which it runs."),
    "nodeSelector": mapping("Labels that its node must have."),
    "os": anything("Operating system of its node."),
    "overhead": mapping("Resources of its runtime.", int_or_string()),
    "preemptionPolicy": text("Whether it drives others away."),
    "priority": small("Its priority."),
    "priorityClassName": text("Name of its priority."),
    "readinessGates": values("Conditions that it needs to be ready.", anything()),
    "resourceClaims": keyed("Devices that it claims.", "name", anything()),
    "resources": _RESOURCES,
    "restartPolicy": text("Always, OnFailure or Never.", default="Always"),
    "runtimeClassName": text("Its runtime."),
    "schedulerName": text("Who finds its node.", default="default-scheduler"),
    "schedulingGates": keyed("What holds back its scheduling.", "name", anything()),
    "securityContext": anything("Its rights.", default={}),
    "serviceAccount": text("No longer used."),
    "serviceAccountName": text("The account that it runs as."),
    "setHostnameAsFQDN": flag("Whether its host name is the full one."),
    "shareProcessNamespace": flag("Whether its containers see each other's processes."),
    "subdomain": text("Its subdomain."),
    "terminationGracePeriodSeconds": integer("Seconds for a graceful end.", default=30),
    "tolerations": values("Marks of nodes that it tolerates.", _TOLERATION),
    "topologySpreadConstraints": keyed("How pods spread over nodes.", "topologyKey", anything()),
    "volumes": keyed("Its volumes.", "name", anything())
    | {"x-kubernetes-patch-strategy": "merge,retainKeys"},
}
_POD_SPEC = record("What the pod runs, and where.", _POD_SPEC_FIELDS, required=("containers",))

_POD_STATUS = record(
    "How far the pod is.",
    {
        "phase": text("Pending, Running, Succeeded, Failed or Unknown.", default="Pending"),
        "conditions": conditions(("lastProbeTime", "lastTransitionTime")),
        "containerStatuses": values("State of its containers.", anything()),
        "ephemeralContainerStatuses": values("State of its containers for debugging.", anything()),
        "initContainerStatuses": values("State of its init containers.", anything()),
        "hostIP": text("Address of its node."),
        "hostIPs": values("Addresses of its node.", anything()),
        "message": text("Why it is so, for people."),
        "nominatedNodeName": text("The node that it may get."),
        "podIP": text("Its address."),
        "podIPs": keyed("Its addresses.", "ip", record("An address.", {"ip": text("The address.")})),
        "qosClass": text("Guaranteed, Burstable or BestEffort."),
        "reason": text("Why it is so, in one word."),
        "resize": text("How far a change of its resources is."),
        "resourceClaimStatuses": values("State of its claims.", anything()),
        "startTime": time("When its node took it."),
    },
    default={},
)

_TEMPLATE = record("The pods that are made.", {"metadata": OBJECT_META, "spec": _POD_SPEC})

_DEPLOYMENT = kind(
    "A number of equal pods.",
    {
        "spec": record(
            "The pods that are wanted.",
            {
                "replicas": small("How many pods.", default=1),
                "selector": LABEL_SELECTOR,
                "template": _TEMPLATE,
                "strategy": record(
                    "How pods are replaced.",
                    {"type": text("RollingUpdate or Recreate."), "rollingUpdate": anything("Its limits.")},
                    **{"x-kubernetes-patch-strategy": "retainKeys"},
                ),
                "minReadySeconds": small("Seconds after which a ready pod counts."),
                "paused": flag("Whether changes wait."),
                "progressDeadlineSeconds": small("Seconds after which it counts as stuck.", default=600),
                "revisionHistoryLimit": small("How many old versions are kept.", default=10),
            },
            required=("selector", "template"),
        ),
        "status": record(
            "The pods that there are.",
            {
                "availableReplicas": small("Pods that are available."),
                "collisionCount": small("Counts collisions of names."),
                "conditions": conditions(("lastTransitionTime", "lastUpdateTime")),
                "observedGeneration": integer("Generation that was observed."),
                "readyReplicas": small("Pods that are ready."),
                "replicas": small("Pods in all."),
                "terminatingReplicas": small("Pods that end."),
                "unavailableReplicas": small("Pods that are missing."),
                "updatedReplicas": small("Pods of the current template."),
            },
            default={},
        ),
    },
)

_DAEMON_SET = kind(
    "One pod on every node that matches.",
    {
        "spec": record(
            "The pods that are wanted.",
            {
                "selector": LABEL_SELECTOR,
                "template": _TEMPLATE,
                "updateStrategy": record(
                    "How pods are replaced.",
                    {"type": text("RollingUpdate or OnDelete."), "rollingUpdate": anything("Its limits.")},
                ),
                "minReadySeconds": small("Seconds after which a ready pod counts."),
                "revisionHistoryLimit": small("How many old versions are kept.", default=10),
            },
            required=("selector", "template"),
        ),
        "status": record(
            "The pods that there are.",
            {
                "collisionCount": small("Counts collisions of names."),
                "conditions": conditions(),
                "currentNumberScheduled": small("Nodes that run a pod and should.", default=0),
                "desiredNumberScheduled": small("Nodes that should run a pod.", default=0),
                "numberAvailable": small("Nodes whose pod is available."),
                "numberMisscheduled": small("Nodes that run a pod and shouldn't.", default=0),
                "numberReady": small("Nodes whose pod is ready.", default=0),
                "numberUnavailable": small("Nodes whose pod is missing."),
                "observedGeneration": integer("Generation that was observed."),
                "updatedNumberScheduled": small("Nodes whose pod is of the current template."),
            },
            default={},
        ),
    },
)

KINDS = (
    ServedKind(
        group="",
        version="v1",
        kind="Pod",
        plural="pods",
        namespaced=True,
        short_names=("po",),
        categories=("all",),
        has_status=True,
        schema=kind("Containers that run together on one node.", {"spec": _POD_SPEC, "status": _POD_STATUS}),
        builtin=True,
    ),
    ServedKind(
        group="apps",
        version="v1",
        kind="Deployment",
        plural="deployments",
        namespaced=True,
        short_names=("deploy",),
        categories=("all",),
        has_status=True,
        schema=_DEPLOYMENT,
        builtin=True,
    ),
    ServedKind(
        group="apps",
        version="v1",
        kind="DaemonSet",
        plural="daemonsets",
        namespaced=True,
        short_names=("ds",),
        categories=("all",),
        has_status=True,
        schema=_DAEMON_SET,
        builtin=True,
    ),
)
