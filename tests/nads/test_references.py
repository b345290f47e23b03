"""Which networks an object refers to."""

import json
from typing import Any, TypeVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanloom.api.core import Node, Pod
from lanloom.api.kubevirt import VirtualMachine, VirtualMachineInstance
from lanloom.api.meta import Key, Object
from lanloom.api.multus import DEFAULT_NETWORK, MULTUS_NETWORKS, NETWORK_STATUS, NETWORKS_MAX
from lanloom.api.workloads import (
    CronJob,
    Job,
    ReplicaSet,
    Workload,
)
from lanloom.nads.references import (
    ANY,
    NONE,
    UNREADABLE,
    References,
    marks_of,
    references_of,
)

T = TypeVar("T", bound=Object)
Raw = dict[str, Any]

NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,8}[a-z0-9])?", fullmatch=True)
BLANKS = st.text(" \t\n", max_size=2)
TEXTS = st.text(max_size=40) | st.text('[]{}",:/@ ab*\n', max_size=40)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from(["name", "namespace"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "Name", "namespace", "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)


def of(type_: type[T], spec: Raw | None = None, annotations: Raw | None = None, **more: Any) -> References:
    """What an object of the namespace `own` refers to."""
    meta = {"name": "x", "namespace": "own", "annotations": annotations or {}} | more.pop("metadata", {})
    return references_of(msgspec.convert({"metadata": meta, "spec": spec or {}} | more, type_))


def pod(text: str, name: str = MULTUS_NETWORKS) -> References:
    """What a pod refers to with an annotation."""
    return of(Pod, annotations={name: text})


def titles(found: References) -> set[str]:
    """The networks, after a look that there is no problem."""
    assert not found.problem
    return set(map(str, found.networks))


def nics(*titles: str, default: bool = False) -> Raw:
    """The spec of a machine with these networks in addition to the pod network."""
    others = [{"name": f"nic{at}", "multus": {"networkName": title}} for at, title in enumerate(titles)]
    if default:
        others[0]["multus"] |= {"default": True}  # type: ignore[operator]
    return {"networks": [{"name": "default", "pod": {}}, *others]}


def template(**annotations: str) -> Raw:
    """The template of pods."""
    named = {
        MULTUS_NETWORKS if key == "networks" else DEFAULT_NETWORK: text for key, text in annotations.items()
    }
    return {"template": {"metadata": {"annotations": named}, "spec": {"containers": []}}}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", set()),
        ("  ", set()),
        (",", set()),
        ("net", {"own/net"}),
        ("a/net", {"a/net"}),
        ("a/net@eth7", {"a/net"}),
        ("net@eth7", {"own/net"}),
        (" a/net , ,b/net @ eth1,net,", {"a/net", "b/net", "own/net"}),
        ("\na / net\n", {"a/net"}),
        ("/net", {"own/net"}),
        ("a.b", {"own/a.b"}),
        ("null", {"own/null"}),
        ("[]", set()),
        (' [{"name": "net"}]', {"own/net"}),
        ('[{"name": "net", "namespace": "a", "interface": "eth7"}, {"name": "net"}]', {"a/net", "own/net"}),
        ('[{"name": "net", "namespace": ""}]', {"own/net"}),
        ('[{"name": "net", "namespace": null}]', {"own/net"}),
        ('[{"Name": "net", "NAMESPACE": "a"}]', {"a/net"}),
        ('[{"name": "other", "name": "net", "NAME": null}]', {"own/net"}),
        ('[{"name": "net", "cni-args": {"name": "other"}, "ips": ["10.0.0.1/24"]}]', {"own/net"}),
        ('[{"namespace": "a"}]', set()),
    ],
)
def test_both_forms_of_the_annotation(text: str, expected: set[str]) -> None:
    """A pod refers to what Multus would attach it to, by either form, and to nothing else."""
    assert titles(pod(text)) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a/b/c", '"a/b/c" must be a name'),
        ("net@eth1@eth2", "must be a name"),
        ("a@b/net", '"a@b" can\'t be the name'),
        ("Net", '"Net" can\'t be the name'),
        ("*/net", "can't be the name"),
        ("*", "can't be the name"),
        ('net, "b"', "not valid JSON"),
        ('{"name": "net"}', "must be a list"),
        ("[1]", "must be an object"),
        ("[null]", "must be an object"),
        ('[{"name": 1}]', "must be strings"),
        ('[{"name": "net", "namespace": ["a"]}]', "must be strings"),
        ('[{"name": "a/net"}]', '"a/net" can\'t be the name'),
        ('[{"name": "net"}', "not valid JSON"),
        ("[" * 60_000, "too deeply"),
        ("[" + "9" * 10_000 + "]", "not valid JSON"),
        (r'[{"name": "\ud800"}]', "can't be the name"),
        ("a" * 254, "can't be the name"),
        ("[" * 100_000, "longer than 65536 characters"),
        ("," * NETWORKS_MAX, "more than 128 networks"),
        (json.dumps([{"name": "net"}] * (NETWORKS_MAX + 1)), "more than 128 networks"),
    ],
)
@pytest.mark.parametrize("annotation", [MULTUS_NETWORKS, DEFAULT_NETWORK])
def test_what_cannot_be_read_may_be_every_network(text: str, words: str, annotation: str) -> None:
    """An annotation that can't be read is a problem in words that name it, and a use of every network."""
    found = pod(text, annotation)
    assert words in found.problem and annotation in found.problem and len(found.problem) < 300
    assert found.may_mean(Key("any", "thing"))


def test_the_default_network() -> None:
    """The network in place of the pod network counts; without a namespace it may be in any: Multus says where."""
    assert titles(pod("a/net@eth0", DEFAULT_NETWORK)) == {"a/net"}
    assert titles(pod('[{"name": "net", "namespace": "a"}]', DEFAULT_NETWORK)) == {"a/net"}
    found = pod("net", DEFAULT_NETWORK)
    assert found.may_mean(Key("own", "net")) and found.may_mean(Key("kube-system", "net"))
    assert not found.may_mean(Key("own", "other")) and not found.problem


@pytest.mark.parametrize(
    ("title", "expected"), [("net", "own/net"), ("a/net", "a/net"), ("/net", "own/net"), ("a/n.b", "a/n.b")]
)
def test_networks_of_machines(title: str, expected: str) -> None:
    """A machine and its instance refer to the NADs of their networks; the pod network is none."""
    assert titles(of(VirtualMachine, {"template": {"spec": nics(title)}})) == {expected}
    assert titles(of(VirtualMachineInstance, nics(title))) == {expected}
    assert of(VirtualMachineInstance, nics()) == NONE


@pytest.mark.parametrize("title", ["", "a/", "a/b/c", "A/net", " a/net", "net@eth0", "*/net"])
def test_networks_of_machines_that_cannot_be_read(title: str) -> None:
    """A machine's network whose NAD can't be read is a problem that names the network."""
    for found in (
        of(VirtualMachine, {"template": {"spec": nics(title)}}),
        of(VirtualMachineInstance, nics(title)),
    ):
        assert '"nic0"' in found.problem and found.may_mean(Key("a", "net"))


def test_machines_that_name_more_networks_than_there_can_be() -> None:
    """A machine with more networks than it can use counts as one that can't be read, and costs no more than that."""
    many = of(VirtualMachineInstance, nics(*(f"net{number}" for number in range(NETWORKS_MAX))))
    assert (many.problem, many.networks) == ("it names more than 128 networks", frozenset())
    assert of(VirtualMachineInstance, nics(*["net"] * (NETWORKS_MAX - 1))) == References(
        frozenset({Key("own", "net")})
    )


def test_a_machine_in_place_of_the_pod_network() -> None:
    """A default network without a namespace is handed on to Multus as it is, so it may be in any."""
    found = of(VirtualMachineInstance, nics("net", default=True))
    assert found.networks == {Key(ANY, "net")}
    assert titles(of(VirtualMachineInstance, nics("a/net", default=True))) == {"a/net"}


def test_annotations_of_machines() -> None:
    """A machine's annotations for its pod count next to its networks: those of the template, not the machine's own."""
    spec = {"template": template(networks="b/net", default="c/net")["template"] | {"spec": nics("net")}}
    found = of(VirtualMachine, spec, {MULTUS_NETWORKS: "d/net"})
    assert titles(found) == {"own/net", "b/net", "c/net"}
    assert titles(of(VirtualMachineInstance, nics("net"), {MULTUS_NETWORKS: "b/net"})) == {"own/net", "b/net"}


def test_a_machine_without_a_template() -> None:
    """Of a machine whose template can't be read it is unknown what it uses."""
    assert "spec.template" in of(VirtualMachine).problem


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_what_has_ended_refers_to_nothing(phase: str) -> None:
    """A pod or an instance that has ended uses nothing any more, not even what can't be read."""
    status = {"phase": phase}
    for text in ("net", "[", "a/b/c"):
        assert of(Pod, annotations={MULTUS_NETWORKS: text}, status=status) == NONE
        assert of(VirtualMachineInstance, nics(text), status=status) == NONE


STATUS = json.dumps(
    [
        {"name": "cbr0", "interface": "eth0", "ips": ["10.42.0.7"], "default": True, "dns": {}},
        {"name": "nets/red", "interface": "net1", "mac": "0a:58:0a:00:00:01", "dns": {}},
        {"interface": "net2"},
    ]
)


def test_what_a_pod_is_attached_to() -> None:
    """A pod uses the networks to which Multus attached it, whatever became of the annotation that asked for them."""
    status = {NETWORK_STATUS: STATUS}
    assert titles(of(Pod, annotations=status)) == {"nets/red"}
    assert titles(of(Pod, annotations=status | {MULTUS_NETWORKS: "blue"})) == {"nets/red", "own/blue"}
    assert of(Pod, annotations=status, status={"phase": "Failed"}) == NONE
    assert of(Pod, annotations={NETWORK_STATUS: '[{"name": "cbr0"}]'}) == NONE


@pytest.mark.parametrize(
    "text",
    [
        "nets/red",
        '{"name": "nets/red"}',
        '[{"name": "a/b/c"}]',
        '[{"name": "a/B"}]',
        f'[{{"name": "a/b", "mac": "{"0" * 70_000}"}}]',
    ],
)
def test_attachments_that_cannot_be_read(text: str) -> None:
    """A damaged status of Multus may be any network."""
    assert NETWORK_STATUS in of(Pod, annotations={NETWORK_STATUS: text}).problem


@pytest.mark.parametrize("phase", ["", "Pending", "Running", "Unknown"])
def test_what_has_not_ended_refers(phase: str) -> None:
    """A pod that is about to run, that runs, or of which nothing is heard uses its networks."""
    found = of(Pod, annotations={MULTUS_NETWORKS: "net"}, status={"phase": phase})
    assert titles(found) == {"own/net"}


def test_workloads() -> None:
    """What makes pods refers to the networks of its template."""
    for kind in (Workload, ReplicaSet, Job):
        assert titles(of(kind, template(networks="net", default="a/net"))) == {"own/net", "a/net"}
        assert of(kind, template()) == NONE
    nested = {"jobTemplate": {"spec": template(networks="net")}}
    assert titles(of(CronJob, nested)) == {"own/net"}


def test_former_templates_of_deployments() -> None:
    """A ReplicaSet that something controls is no user by itself; any other is."""
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "1"}
    controlled = {"ownerReferences": [owner | {"controller": True}]}
    assert of(ReplicaSet, template(networks="net"), metadata=controlled) == NONE
    for owners in ([], [owner], [owner | {"controller": False}]):
        found = of(ReplicaSet, template(networks="net"), metadata={"ownerReferences": owners})
        assert titles(found) == {"own/net"}


@pytest.mark.parametrize(
    ("type_", "status", "finished"),
    [
        ("Complete", "True", True),
        ("Failed", "True", True),
        ("Failed", "False", False),
        ("Suspended", "True", False),
    ],
)
def test_jobs_that_are_finished(type_: str, status: str, finished: bool) -> None:
    """A job uses its networks until it is done or has failed."""
    conditions = {"conditions": [{"type": type_, "status": status}]}
    assert (of(Job, template(networks="net"), status=conditions) == NONE) == finished


def test_other_kinds() -> None:
    """An object of a kind that has no networks refers to none."""
    assert of(Node, annotations={MULTUS_NETWORKS: "net"}) == NONE


def test_problems_of_several_places() -> None:
    """Every problem of an object is reported, and what can be read counts as well."""
    found = of(VirtualMachineInstance, nics("net", "A"), {MULTUS_NETWORKS: "[", DEFAULT_NETWORK: "B"})
    assert found.problem.count(";") == 2
    assert found.marks == {Key("own", "net"), UNREADABLE}
    assert of(VirtualMachineInstance, nics(*["A"] * 100)).problem.endswith("; and 97 more")


@given(TEXTS | JSON.map(json.dumps), TEXTS, TEXTS)
def test_no_text_breaks_it(networks: str, default: str, title: str) -> None:
    """Whatever users write is read, or is a problem; what is read can be an object's name."""
    annotations = {MULTUS_NETWORKS: networks, DEFAULT_NETWORK: default}
    for found in (
        of(Pod, annotations=annotations),
        of(VirtualMachineInstance, nics(title), annotations),
        of(CronJob, {"jobTemplate": {"spec": {"template": {"metadata": {"annotations": annotations}}}}}),
    ):
        for key in found.networks:
            assert key.name not in ("", ANY) and "/" not in key.name + key.namespace
            assert str(key).isascii() and str(key) == str(key).lower().strip()


@given(st.lists(st.tuples(st.none() | NAMES, NAMES, st.none() | NAMES), max_size=5), st.data())
def test_every_form_says_the_same(
    wanted: list[tuple[str | None, str, str | None]], data: st.DataObject
) -> None:
    """However a list of networks is written, it is read as what it is, and no other network is meant."""
    expected = {Key(namespace or "own", name) for namespace, name, _ in wanted}
    short = ",".join(
        data.draw(BLANKS)
        + "".join((f"{place}/" if place else "", name, f"@{interface}" if interface else ""))
        + data.draw(BLANKS)
        for place, name, interface in wanted
    )
    long = json.dumps(
        [
            {
                key: text
                for key, text in zip(("namespace", "name", "interface"), item, strict=True)
                if text is not None
            }
            for item in wanted
        ]
    )
    for found in (pod(short), pod(long)):
        assert found == References(frozenset(expected))
        for other in (Key("own", "zz"), *(Key(f"{key.namespace}x", key.name) for key in expected)):
            assert found.may_mean(other) == (other in expected)


@given(NAMES, NAMES, NAMES, NAMES)
def test_names_are_compared_exactly(place: str, name: str, other_place: str, other: str) -> None:
    """A network is meant by its namespace and its name together, by no part of them."""
    found = pod(f"{place}/{name}")
    nad = Key(other_place, other)
    assert found.may_mean(nad) == ((place, name) == (other_place, other))
    assert found.may_mean(nad) == any(mark in found.marks for mark in marks_of(nad))


def test_what_is_kept_of_owners() -> None:
    """Of what makes pods nothing is kept that does not say which networks they use, or whose it is."""
    spec = template(networks="net")
    spec["template"]["metadata"]["annotations"]["checksum"] = "1"
    meta = {"uid": "1", "resourceVersion": "2", "labels": {"a": "b"}, "finalizers": ["c"]}
    body = {"metadata": {"name": "x", "namespace": "own", "annotations": {"d": "e"}} | meta, "spec": spec}
    item = msgspec.convert(body, Workload)
    assert item.spec.template.metadata.annotations == {MULTUS_NETWORKS: "net"}
    assert msgspec.to_builtins(item.metadata) == {
        "name": "x",
        "namespace": "own",
        "uid": "1",
        "resourceVersion": "2",
    }
