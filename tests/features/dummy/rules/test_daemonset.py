"""The DaemonSet of an isolated network's bridge: what it may do, and what of it is put right."""

import copy
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanloom.api.dummy import (
    ABSENT,
    BRIDGE_LABEL,
    PRESENT,
    UID_LABEL,
)
from lanloom.api.workloads import DAEMON_SETS, DaemonSet
from lanloom.features.dummy.rules.daemonset import (
    READY_FILE,
    State,
    UnknownImage,
    daemon_set_body,
    daemon_set_patch,
    defaulted,
    has_digest,
    has_tag,
)
from lanloom.features.dummy.rules.model import Settings
from lanloom.kube.patches import merge_diff
from lanloom_embedded.patches import merge_patch
from tests.features.dummy.rules.made import IMAGE, SETTINGS, UID

Raw = dict[str, Any]


def body(state: State = "present", settings: Settings = SETTINGS) -> Raw:
    """The DaemonSet of net1."""
    return daemon_set_body("net1", UID, "dummy-br", settings, state)


def pod(raw: Raw) -> Raw:
    """The spec of its pods."""
    found: Raw = raw["spec"]["template"]["spec"]
    return found


def served(raw: Raw) -> Raw:
    """The object as an API server has it: with what Kubernetes fills in, and without what is empty."""
    made = copy.deepcopy(raw)
    made["metadata"] |= {"resourceVersion": "7", "uid": "d", "generation": 1}
    made["metadata"]["annotations"]["deprecated.daemonset.template.generation"] = "1"
    made["spec"]["revisionHistoryLimit"] = 10
    made["spec"]["updateStrategy"]["rollingUpdate"]["maxSurge"] = 0
    made["spec"]["template"]["metadata"]["creationTimestamp"] = None
    pod(made).update(restartPolicy="Always", schedulerName="default-scheduler", securityContext={})
    container = pod(made)["containers"][0]
    container |= {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
    container["readinessProbe"] |= {"timeoutSeconds": 1, "successThreshold": 1, "failureThreshold": 3}
    return made


def read(raw: Raw) -> DaemonSet:
    """The object as a client reads it."""
    return msgspec.convert(raw, DAEMON_SETS.type)


def test_pods_may_do_no_more_than_they_must() -> None:
    """The pods have the host's network and NET_ADMIN; no account, no host PIDs, no file of the host, no other right."""
    spec = pod(body())
    (only,) = spec["containers"]
    assert spec["hostNetwork"] is True
    assert not {"hostPID", "hostIPC", "serviceAccountName", "initContainers"} & spec.keys()
    assert spec["automountServiceAccountToken"] is False
    assert [volume.keys() for volume in spec["volumes"]] == [{"name", "emptyDir"}]
    context = only["securityContext"]
    assert context["capabilities"] == {"drop": ["ALL"], "add": ["NET_ADMIN"]}
    assert (context["allowPrivilegeEscalation"], context["readOnlyRootFilesystem"]) == (False, True)
    assert "privileged" not in context
    assert only["image"] == IMAGE


def test_pods_are_everywhere() -> None:
    """No taint keeps a pod away, and it goes before others where a node is full."""
    spec = pod(body())
    assert spec["tolerations"] == [{"operator": "Exists"}]
    assert spec["priorityClassName"] == "system-node-critical"


@pytest.mark.parametrize(("state", "share"), [(PRESENT, "10%"), (ABSENT, "100%")])
def test_a_pod_says_what_it_does(state: State, share: str) -> None:
    """The state is in the arguments and in a label; what takes bridges away may be everywhere at once."""
    made = body(state)
    assert made["spec"]["template"]["metadata"]["labels"] | {
        "app.kubernetes.io/name": "lanloom-dummy-bridge"
    } == {"app.kubernetes.io/name": "lanloom-dummy-bridge", UID_LABEL: UID, BRIDGE_LABEL: state}
    assert made["spec"]["selector"] == {"matchLabels": {UID_LABEL: UID}}
    assert made["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"] == share
    words = pod(made)["containers"][0]["args"]
    assert words[:2] == ["dummy", "bridge"]
    given = dict(zip(words[2::2], words[3::2], strict=True))
    assert given == {"--name": "dummy-br", "--owner": UID, "--state": state, "--ready-file": READY_FILE}


def test_a_gateway_is_told() -> None:
    """The keeper of a network with a gateway knows the address that pods may have given the bridge before it."""
    made = daemon_set_body("net1", UID, "dummy-br", SETTINGS, "present", "10.115.0.1/24")
    words = pod(made)["containers"][0]["args"]
    assert words[words.index("--gateway") + 1] == "10.115.0.1/24"


def test_readiness_is_asked_for_where_it_is_told() -> None:
    """The probe looks for the file that the program writes, in a directory that the pod may write to."""
    (only,) = pod(body())["containers"]
    assert only["readinessProbe"]["exec"]["command"][-1] == READY_FILE
    assert READY_FILE.startswith(only["volumeMounts"][0]["mountPath"])


@pytest.mark.parametrize(
    ("image", "good"),
    [
        (IMAGE, True),
        (f"lanloom@sha256:{'0' * 64}", True),
        (f"localhost:5000/a/b:1.0@sha256:{'0' * 64}", True),
        ("", False),
        ("lanloom", False),
        (f"sha256:{'0' * 64}", False),
        (f"@sha256:{'0' * 64}", False),
        (f"lanloom@sha256:{'0' * 63}", False),
        (f"lanloom@sha256:{'0' * 65}", False),
        (f"lanloom@sha256:{'G' * 64}", False),
        (f"lan loom@sha256:{'0' * 64}", False),
    ],
)
def test_images_are_named_by_their_digest(image: str, good: bool) -> None:
    """A name with a digest is taken; without one, the message says how to set it."""
    assert has_digest(image) == good
    assert not has_tag(image)
    if not good:
        with pytest.raises(UnknownImage, match=r"net1: .*--dummy-image, or as image in the ConfigMap"):
            body(settings=Settings(image=image))


@pytest.mark.parametrize(
    ("image", "policy"),
    [(IMAGE, "IfNotPresent"), ("docker.io/library/lanloom:0.1.0", "Never"), ("host:5000/lanloom:a", "Never")],
)
def test_an_image_without_digest_is_never_pulled(image: str, policy: str) -> None:
    """An image that is known by its tag runs only where it was loaded; one with a digest may be pulled."""
    made = _container(body(settings=Settings(image=image)))
    assert (made["image"], made["imagePullPolicy"]) == (image, policy)
    assert has_tag(image) != has_digest(image)


@pytest.mark.parametrize("state", [PRESENT, ABSENT])
def test_what_a_server_fills_in_is_no_drift(state: State) -> None:
    """A DaemonSet is as wanted right after it was made, whatever the server added."""
    assert daemon_set_patch(read(served(body(state))), body(state)) == {}


def _container(raw: Raw) -> Raw:
    found: Raw = pod(raw)["containers"][0]
    return found


HARMLESS: dict[str, Callable[[Raw], Any]] = {
    "a restart that an operator asked for": lambda raw: raw["spec"]["template"]["metadata"][
        "annotations"
    ].update({"kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z"}),
    "a label next to ours": lambda raw: raw["metadata"]["labels"].update(team="a"),
    "an annotation next to ours": lambda raw: raw["metadata"]["annotations"].update(note="a"),
    "an empty list": lambda raw: pod(raw).update(initContainers=[]),
}


@pytest.mark.parametrize("change", HARMLESS.values(), ids=HARMLESS)
def test_what_harms_nobody_stays(change: Callable[[Raw], Any]) -> None:
    """Restarts, and labels and annotations next to ours, are left alone."""
    changed = served(body())
    change(changed)
    assert daemon_set_patch(read(changed), body()) == {}


INTRUDER = {"name": "intruder", "image": "x"}
HARM: dict[str, Callable[[Raw], Any]] = {
    "a container more": lambda raw: pod(raw)["containers"].append(INTRUDER),
    "a container first": lambda raw: pod(raw)["containers"].insert(0, INTRUDER),
    "no container": lambda raw: pod(raw)["containers"].clear(),
    "an init container": lambda raw: pod(raw).update(initContainers=[INTRUDER]),
    "a debugging container": lambda raw: pod(raw).update(ephemeralContainers=[INTRUDER]),
    "the host's PIDs": lambda raw: pod(raw).update(hostPID=True),
    "the host's IPC": lambda raw: pod(raw).update(hostIPC=True),
    "PIDs of each other": lambda raw: pod(raw).update(shareProcessNamespace=True),
    "no host network": lambda raw: pod(raw).pop("hostNetwork"),
    "an account": lambda raw: pod(raw).update(serviceAccountName="admin", serviceAccount="admin"),
    "a token": lambda raw: pod(raw).update(automountServiceAccountToken=True),
    "a token by default": lambda raw: pod(raw).pop("automountServiceAccountToken"),
    "the host's files": lambda raw: pod(raw)["volumes"].append({"name": "h", "hostPath": {"path": "/"}}),
    "the host's files in place of ours": lambda raw: pod(raw)["volumes"][0].update(hostPath={"path": "/"}),
    "a mount": lambda raw: _container(raw)["volumeMounts"].append({"name": "h", "mountPath": "/h"}),
    "a capability": lambda raw: _container(raw)["securityContext"]["capabilities"]["add"].append("SYS_ADMIN"),
    "another capability": lambda raw: _container(raw)["securityContext"]["capabilities"].update(add=["ALL"]),
    "capabilities kept": lambda raw: _container(raw)["securityContext"]["capabilities"].pop("drop"),
    "privileges": lambda raw: _container(raw)["securityContext"].update(privileged=True),
    "escalation": lambda raw: _container(raw)["securityContext"].update(allowPrivilegeEscalation=True),
    "escalation by default": lambda raw: _container(raw)["securityContext"].pop("allowPrivilegeEscalation"),
    "a file system to write to": lambda raw: _container(raw)["securityContext"].pop("readOnlyRootFilesystem"),
    "no seccomp": lambda raw: _container(raw)["securityContext"].update(
        seccompProfile={"type": "Unconfined"}
    ),
    "no AppArmor": lambda raw: raw["spec"]["template"]["metadata"]["annotations"].update(
        {"container.apparmor.security.beta.kubernetes.io/bridge": "unconfined"}
    ),
    "a pod's context": lambda raw: pod(raw).update(securityContext={"seLinuxOptions": {"type": "spc_t"}}),
    "an image": lambda raw: _container(raw).update(image="lanloom:latest"),
    "a command": lambda raw: _container(raw).update(command=["/bin/sh"]),
    "arguments": lambda raw: _container(raw).update(args=["dummy", "bridge"]),
    "variables": lambda raw: _container(raw).update(env=[{"name": "PYTHONPATH", "value": "/h"}]),
    "variables of a map": lambda raw: _container(raw).update(envFrom=[{"configMapRef": {"name": "a"}}]),
    "a hook": lambda raw: _container(raw).update(lifecycle={"preStop": {"exec": {"command": ["a"]}}}),
    "a port": lambda raw: _container(raw).update(ports=[{"containerPort": 1, "hostPort": 1}]),
    "another probe": lambda raw: _container(raw)["readinessProbe"].update(exec={"command": ["/bin/true"]}),
    "fewer nodes": lambda raw: pod(raw).update(nodeSelector={"a": "b"}),
    "nodes that it prefers": lambda raw: pod(raw).update(affinity={"nodeAffinity": {"a": {}}}),
    "a taint not tolerated": lambda raw: pod(raw)["tolerations"].clear(),
    "a label gone": lambda raw: raw["spec"]["template"]["metadata"]["labels"].pop(BRIDGE_LABEL),
    "another state": lambda raw: raw["spec"]["template"]["metadata"]["labels"].update({BRIDGE_LABEL: ABSENT}),
    "a name gone": lambda raw: raw["metadata"]["annotations"].clear(),
    "nothing replaced": lambda raw: raw["spec"].update(updateStrategy={"type": "OnDelete"}),
    "a template that is none": lambda raw: raw["spec"].update(template={}),
    "a runtime": lambda raw: pod(raw).update(runtimeClassName="other"),
}


@pytest.mark.parametrize("change", HARM.values(), ids=HARM)
def test_what_somebody_changed_is_put_right(change: Callable[[Raw], Any]) -> None:
    """Whatever we set and whatever could gain rights is found, and one patch on the read version mends it."""
    changed = served(body())
    change(changed)
    patch = daemon_set_patch(read(changed), body())
    assert patch["metadata"]["resourceVersion"] == "7"
    mended = merge_patch(changed, patch)
    assert daemon_set_patch(read(mended), body()) == {}
    spec = pod(mended)
    assert "hostPID" not in spec or spec["hostPID"] is None
    assert [item["name"] for item in spec["containers"]] == ["bridge"]


def test_a_bridge_is_taken_away_by_the_same_daemon_set() -> None:
    """From present to absent, nothing but the state and the pace changes."""
    patch = daemon_set_patch(read(served(body())), body("absent"))
    assert patch["spec"].keys() == {"updateStrategy", "template"}
    mended = merge_patch(served(body()), patch)
    assert daemon_set_patch(read(mended), body("absent")) == {}
    assert mended["spec"]["selector"] == body()["spec"]["selector"]


KEYS = st.sampled_from(["a", "b", "restartPolicy", "timeoutSeconds", "hostPID", "securityContext"])
LEAVES = st.sampled_from([0, 1, 3, "Always", "x", "", True, False])
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner), max_leaves=9
)
OBJECTS = st.dictionaries(KEYS, VALUES)


def says(found: Any, want: Any) -> bool:
    """Whether everything that is wanted is there, and lists hold nothing more."""
    if isinstance(want, dict):
        return isinstance(found, dict) and all(key in found and says(found[key], want[key]) for key in want)
    if isinstance(want, list):
        same = isinstance(found, list) and len(found) == len(want)
        return same and all(says(one, other) for one, other in zip(found, want, strict=True))
    return bool(found == want)


@given(OBJECTS, OBJECTS)
def test_what_is_wanted_stands(have: dict[str, Any], want: dict[str, Any]) -> None:
    """Whatever is there, everything that is wanted stands afterwards, and nothing is left to do."""
    once = defaulted(have, want)
    assert says(once, want)
    assert defaulted(once, want) == once


@given(OBJECTS, OBJECTS)
def test_a_patch_brings_it_about(have: dict[str, Any], want: dict[str, Any]) -> None:
    """The merge patch of the difference makes an object as it is to stand; there is none where it stands so."""
    wanted = defaulted(have, want)
    patch = merge_diff(have, wanted)
    assert defaulted(merge_patch(have, patch), want) == wanted
    assert (patch == {}) == (have == wanted)


@given(OBJECTS)
def test_nothing_that_gains_something_stays(have: dict[str, Any]) -> None:
    """Of what is not wanted, only what says nothing and what servers fill in stays."""
    for key, value in defaulted(have, {}).items():
        assert not value or (key, value) in (("restartPolicy", "Always"), ("timeoutSeconds", 1))
