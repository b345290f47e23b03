"""Admission webhooks, asked through a caller that the tests play."""

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable

import pytest

from lanloom.runtime.https.errors import (
    BadRequest,
    Conflict,
    InternalError,
    NotFound,
    StatusError,
)
from lanloom_embedded.engine.calls import Call, DeleteOptions
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.reads import Selection
from lanloom_embedded.engine.webhooks import Hook, WebhookError
from lanloom_embedded.kinds import Raw, ServedKind
from lanloom_embedded.patches import merge_patch
from tests.embedded.engine.running import (
    WIDGETS,
    config_map,
    kind_of,
    running_engine,
    until,
)
from tests.harness.virtual import run

Answer = Callable[[Raw], Raw]

RULE: Raw = {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["configmaps"], "operations": ["*"]}


class PlayedWebhooks:
    """Answers by the webhook's name, and keeps what was asked."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.asked: list[tuple[str, Raw]] = []
        self.delay = 0.0
        self.meanwhile: Callable[[], Awaitable[object]] | None = None

    async def call(self, webhook: Raw, review: Raw) -> Raw:
        """The played answer."""
        self.asked.append((webhook["name"], review["request"]))
        if (meanwhile := self.meanwhile) is not None:
            self.meanwhile = None
            await meanwhile()
        await asyncio.sleep(self.delay)
        answer = self.answers.get(webhook["name"])
        response = answer(review["request"]) if answer else {"allowed": True}
        return {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "response": {"uid": review["request"]["uid"], **response},
        }


def patching(*operations: Raw) -> Answer:
    """Allow, with a JSON patch."""
    patch = base64.b64encode(json.dumps(operations).encode()).decode()
    return lambda _: {"allowed": True, "patchType": "JSONPatch", "patch": patch}


async def register(engine: Engine, plural: str, *webhooks: Raw, name: str = "hooks") -> None:
    """Store a configuration of webhooks, each with what its test doesn't say."""
    kind = kind_of(engine, plural, "admissionregistration.k8s.io")
    defaults: Raw = {
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [RULE],
    }
    body = {"metadata": {"name": name}, "webhooks": [defaults | webhook for webhook in webhooks]}
    await engine.create(kind, "", body, Call())


VALIDATING = "validatingwebhookconfigurations"
MUTATING = "mutatingwebhookconfigurations"


async def test_refusal_carries_the_webhooks_words() -> None:
    """A refused object is not created, and the user reads the webhook's own message, code and reason."""
    hooks = PlayedWebhooks()
    hooks.answers["one.example.com"] = lambda _: {
        "allowed": False,
        "status": {"message": "no", "code": 403, "reason": "Forbidden"},
    }
    async with running_engine(webhooks=hooks) as engine:
        await register(engine, VALIDATING, {"name": "one.example.com"})
        kind = kind_of(engine, "configmaps")
        with pytest.raises(StatusError) as caught:
            await engine.create(kind, "default", config_map("a"), Call())
        assert caught.value.message == 'admission webhook "one.example.com" denied the request: no'
        assert (caught.value.code, caught.value.reason) == (403, "Forbidden")
        with pytest.raises(NotFound):
            engine.get(kind, "default", "a")


async def test_a_namespace_says_why_an_object_stays() -> None:
    """A namespace whose objects a webhook keeps says so in the webhook's words, and goes when it lets them."""
    hooks = PlayedWebhooks()
    hooks.answers["one.example.com"] = lambda _: {
        "allowed": False,
        "status": {"message": "the VMs shop/web use it", "code": 403, "reason": "Forbidden"},
    }
    async with running_engine(webhooks=hooks) as engine:
        namespaces, maps = kind_of(engine, "namespaces"), kind_of(engine, "configmaps")
        await engine.create(namespaces, "", {"metadata": {"name": "n"}}, Call())
        await engine.create(maps, "n", config_map("a"), Call())
        rule = {**RULE, "operations": ["DELETE"], "resources": ["configmaps"]}
        await register(engine, VALIDATING, {"name": "one.example.com", "rules": [rule]})
        await engine.delete(namespaces, "", "n", DeleteOptions(), Call())
        await until(lambda: "conditions" in engine.get(namespaces, "", "n").raw()["status"])
        found = {item["type"]: item for item in engine.get(namespaces, "", "n").raw()["status"]["conditions"]}
        failure = found["NamespaceDeletionContentFailure"]
        assert (failure["status"], failure["reason"]) == ("True", "ContentDeletionFailed")
        assert failure["message"] == (
            'Objects that could not be deleted (1): admission webhook "one.example.com" denied the request: the VMs '
            "shop/web use it"
        )
        assert found["NamespaceContentRemaining"]["message"] == "Objects are left: configmaps (1)"


async def test_mutating_webhooks_see_each_others_work() -> None:
    """Each mutating webhook gets what the former one made of the object, and validating ones get the end."""
    hooks = PlayedWebhooks()
    hooks.answers["one.example.com"] = patching({"op": "add", "path": "/data/first", "value": "1"})
    hooks.answers["two.example.com"] = patching({"op": "add", "path": "/data/second", "value": "2"})
    async with running_engine(webhooks=hooks) as engine:
        await register(engine, MUTATING, {"name": "one.example.com"}, {"name": "two.example.com"})
        await register(engine, VALIDATING, {"name": "three.example.com"})
        made = await engine.create(kind_of(engine, "configmaps"), "default", config_map("a", k="v"), Call())
        assert made.raw()["data"] == {"k": "v", "first": "1", "second": "2"}
        assert [name for name, _ in hooks.asked] == [
            "one.example.com",
            "two.example.com",
            "three.example.com",
        ]
        assert "first" in hooks.asked[1][1]["object"]["data"]
        assert hooks.asked[2][1]["object"]["metadata"]["uid"] == made.meta().uid


async def test_webhook_that_wants_it_is_asked_again_after_later_changes() -> None:
    """reinvocationPolicy IfNeeded: asked again when a later webhook changed the object, and only then."""
    hooks = PlayedWebhooks()
    hooks.answers["two.example.com"] = patching({"op": "add", "path": "/data/second", "value": "2"})
    async with running_engine(webhooks=hooks) as engine:
        again = {"reinvocationPolicy": "IfNeeded"}
        await register(
            engine, MUTATING, {"name": "one.example.com"} | again, {"name": "two.example.com"} | again
        )
        await engine.create(kind_of(engine, "configmaps"), "default", config_map("a", k="v"), Call())
        assert [name for name, _ in hooks.asked] == ["one.example.com", "two.example.com", "one.example.com"]


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
def test_failure_policy_decides_when_a_webhook_is_silent(policy: str) -> None:
    """A webhook that doesn't answer in time refuses with Fail and is passed over with Ignore."""
    hooks = PlayedWebhooks()
    hooks.delay = 3600

    async def main() -> bool:
        async with running_engine(webhooks=hooks) as engine:
            await register(
                engine, VALIDATING, {"name": "one.example.com", "failurePolicy": policy, "timeoutSeconds": 3}
            )
            loop = asyncio.get_running_loop()
            started = loop.time()
            try:
                await engine.create(kind_of(engine, "configmaps"), "default", config_map("a"), Call())
            except InternalError as error:
                assert error.message == (
                    'Internal error occurred: failed calling webhook "one.example.com": context deadline exceeded'
                )
                return False
            finally:
                assert loop.time() - started == pytest.approx(3)
            return True

    assert run(main()) is (policy == "Ignore")


@pytest.mark.parametrize(
    ("webhook", "asked"),
    [
        ({}, True),
        ({"rules": [RULE | {"operations": ["UPDATE"]}]}, False),
        ({"rules": [RULE | {"apiGroups": ["apps"]}]}, False),
        ({"rules": [RULE | {"resources": ["*"]}]}, True),
        ({"rules": [RULE | {"resources": ["configmaps/status"]}]}, False),
        ({"rules": [RULE | {"resources": ["*/*"]}]}, True),
        ({"rules": [RULE | {"scope": "Cluster"}]}, False),
        ({"objectSelector": {"matchLabels": {"colour": "red"}}}, True),
        ({"objectSelector": {"matchLabels": {"colour": "blue"}}}, False),
        ({"objectSelector": {"matchExpressions": [{"key": "colour", "operator": "Exists"}]}}, True),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "elsewhere"}}}, False),
    ],
)
async def test_only_matching_webhooks_are_asked(webhook: Raw, asked: bool) -> None:
    """Rules and selectors decide whether a webhook is asked about an object."""
    hooks = PlayedWebhooks()
    async with running_engine(webhooks=hooks) as engine:
        await register(engine, VALIDATING, {"name": "one.example.com"} | webhook)
        body = {"metadata": {"name": "a", "labels": {"colour": "red"}}}
        await engine.create(kind_of(engine, "configmaps"), "default", body, Call())
        assert bool(hooks.asked) is asked


async def test_webhook_for_another_version_sees_the_object_in_that_version() -> None:
    """A rule for v1 matches a request in v1beta1, which the webhook then gets as v1."""
    hooks = PlayedWebhooks()
    async with running_engine(webhooks=hooks) as engine:
        definitions = kind_of(engine, "customresourcedefinitions", "apiextensions.k8s.io")
        await engine.create(definitions, "", WIDGETS, Call())
        rule = {**RULE, "resources": ["widgets"], "apiVersions": ["v1"]}
        await register(engine, VALIDATING, {"name": "one.example.com", "rules": [rule]})
        kind = kind_of(engine, "widgets", "example.com", "v1beta1")
        body = {"apiVersion": "example.com/v1beta1", "kind": "Widget", "metadata": {"name": "a"}}
        await engine.create(kind, "default", body, Call())
        (_, request) = hooks.asked[0]
        assert request["object"]["apiVersion"] == "example.com/v1"
        assert request["kind"]["version"] == "v1"
        assert request["requestKind"]["version"] == "v1beta1"


async def test_dry_run_is_told_to_webhooks() -> None:
    """A dry run is sent to the webhook, and nothing is kept."""
    hooks = PlayedWebhooks()
    async with running_engine(webhooks=hooks) as engine:
        await register(engine, VALIDATING, {"name": "one.example.com", "sideEffects": "NoneOnDryRun"})
        kind = kind_of(engine, "configmaps")
        await engine.create(kind, "default", config_map("a"), Call(dry_run=True))
        assert hooks.asked[0][1]["dryRun"] is True
        with pytest.raises(NotFound):
            engine.get(kind, "default", "a")


async def test_configurations_are_never_asked_about() -> None:
    """A webhook for everything can't lock its own configuration."""
    hooks = PlayedWebhooks()
    hooks.answers["one.example.com"] = lambda _: {"allowed": False}
    async with running_engine(webhooks=hooks) as engine:
        rule = RULE | {"resources": ["*"]}
        await register(engine, VALIDATING, {"name": "one.example.com", "rules": [rule]})
        kind = kind_of(engine, VALIDATING, "admissionregistration.k8s.io")
        await engine.delete(kind, "", "hooks", DeleteOptions(), Call())
        assert not hooks.asked


async def test_deletion_is_asked_about_with_the_old_object() -> None:
    """On DELETE a webhook gets the object that is to go as the old one."""
    hooks = PlayedWebhooks()
    async with running_engine(webhooks=hooks) as engine:
        kind = kind_of(engine, "configmaps")
        await engine.create(kind, "default", config_map("a", k="v"), Call())
        await register(engine, VALIDATING, {"name": "one.example.com"})
        await engine.delete(kind, "default", "a", DeleteOptions(), Call())
        request = hooks.asked[0][1]
        assert (request["operation"], request["object"]) == ("DELETE", None)
        assert request["oldObject"]["data"] == {"k": "v"}


async def test_what_goes_with_something_else_is_asked_about_in_the_name_of_who_takes_it() -> None:
    """Webhooks can tell what a controller deletes, with its owner or its namespace, from the server's own requests."""
    hooks = PlayedWebhooks()
    async with running_engine(webhooks=hooks) as engine:
        kind, spaces = kind_of(engine, "configmaps"), kind_of(engine, "namespaces")
        await engine.create(spaces, "", {"metadata": {"name": "place"}}, Call())
        owner = await engine.create(kind, "place", config_map("owner"), Call())
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.meta().uid}
        owned = config_map("owned")
        owned["metadata"]["ownerReferences"] = [reference]
        await engine.create(kind, "place", owned, Call())
        await engine.create(kind, "place", config_map("other"), Call())
        await register(engine, VALIDATING, {"name": "one.example.com"})
        await engine.delete(kind, "place", "owner", DeleteOptions(), Call())
        await until(lambda: len(hooks.asked) == 2)
        await engine.delete(spaces, "", "place", DeleteOptions(), Call())
        await until(lambda: len(hooks.asked) == 3)
        assert [(asked["name"], asked["userInfo"]["username"]) for _, asked in hooks.asked] == [
            ("owner", "system:lanloom:apiserver"),
            ("owned", "system:serviceaccount:kube-system:generic-garbage-collector"),
            ("other", "system:serviceaccount:kube-system:namespace-controller"),
        ]


async def test_what_must_stay_in_a_namespace_keeps_nothing_else_in_it() -> None:
    """An object whose deletion a webhook refuses keeps its namespace, until it may go; all others go at once."""
    hooks = PlayedWebhooks()
    kept = {"a"}
    hooks.answers["one.example.com"] = lambda request: {"allowed": request["name"] not in kept}
    async with running_engine(webhooks=hooks) as engine:
        kind, spaces = kind_of(engine, "configmaps"), kind_of(engine, "namespaces")
        secrets = kind_of(engine, "secrets")
        await engine.create(spaces, "", {"metadata": {"name": "place"}}, Call())
        for name in ("a", "b"):
            await engine.create(kind, "place", config_map(name), Call())
        await engine.create(secrets, "place", {"metadata": {"name": "c"}}, Call())
        await register(engine, VALIDATING, {"name": "one.example.com"})
        await engine.delete(spaces, "", "place", DeleteOptions(), Call())

        def left(kind: ServedKind) -> list[str]:
            place = Selection("place") if kind.namespaced else Selection(fields="metadata.name=place")
            return [item.key.name for item in engine.list_page(kind, place).items]

        await until(lambda: (left(kind), left(secrets)) == (["a"], []))
        kept.clear()
        await engine.delete(kind, "place", "a", DeleteOptions(), Call())
        await until(lambda: not left(spaces))


async def test_patch_is_made_again_when_the_object_changed_during_admission() -> None:
    """A patch without a version holds for the state that another writer left while a webhook was asked."""
    hooks = PlayedWebhooks()
    async with running_engine(webhooks=hooks) as engine:
        kind = kind_of(engine, "configmaps")
        await engine.create(kind, "default", config_map("a"), Call())
        await register(engine, VALIDATING, {"name": "one.example.com"})

        def setting(key: str) -> Callable[[Raw], Raw]:
            return lambda old: merge_patch(old, {"data": {key: "v"}})

        hooks.meanwhile = lambda: engine.patch(kind, "default", "a", setting("theirs"), Call())
        await engine.patch(kind, "default", "a", setting("ours"), Call())
        assert engine.get(kind, "default", "a").raw()["data"] == {"ours": "v", "theirs": "v"}


async def test_replacement_conflicts_when_the_object_changed_during_admission() -> None:
    """A replacement that names a version conflicts although the version was current when it came."""
    hooks = PlayedWebhooks()
    async with running_engine(webhooks=hooks) as engine:
        kind = kind_of(engine, "configmaps")
        made = await engine.create(kind, "default", config_map("a"), Call())
        await register(engine, VALIDATING, {"name": "one.example.com"})
        theirs = {"data": {"theirs": "v"}}
        hooks.meanwhile = lambda: engine.patch(
            kind, "default", "a", lambda old: merge_patch(old, theirs), Call()
        )
        with pytest.raises(Conflict):
            await engine.update(kind, "default", "a", {**made.raw(), "data": {"ours": "v"}}, Call())


async def test_warnings_reach_the_caller_once() -> None:
    """Warnings of webhooks are collected, each once."""
    hooks = PlayedWebhooks()
    for name in ("one.example.com", "two.example.com"):
        hooks.answers[name] = lambda _: {"allowed": True, "warnings": ["old and slow"]}
    async with running_engine(webhooks=hooks) as engine:
        await register(engine, VALIDATING, {"name": "one.example.com"}, {"name": "two.example.com"})
        call = Call()
        await engine.create(kind_of(engine, "configmaps"), "default", config_map("a"), call)
        assert list(call.warnings) == ["old and slow"]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"response": None}, "webhook response did not set response"),
        ({"response": {"uid": "other", "allowed": True}}, "expected response.uid"),
        ({"kind": "Nonsense"}, "expected webhook response of admission.k8s.io/v1"),
    ],
)
async def test_answer_that_is_none_counts_as_failure(answer: Raw, why: str) -> None:
    """An answer that can't be used refuses the request and says what is wrong with it."""

    class Broken:
        async def call(self, webhook: Raw, review: Raw) -> Raw:
            head = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
            return head | {"response": {"uid": review["request"]["uid"], "allowed": True}} | answer

    async with running_engine(webhooks=Broken()) as engine:
        await register(engine, VALIDATING, {"name": "one.example.com"})
        with pytest.raises(InternalError, match=why):
            await engine.create(kind_of(engine, "configmaps"), "default", config_map("a"), Call())


async def test_unreachable_webhook_names_itself() -> None:
    """When a webhook can't be called, the message names it and says why."""

    class Dead:
        async def call(self, webhook: Raw, review: Raw) -> Raw:
            raise WebhookError("no server listens")

    async with running_engine(webhooks=Dead()) as engine:
        await register(engine, VALIDATING, {"name": "one.example.com"})
        with pytest.raises(InternalError, match=r'webhook "one\.example\.com": no server listens'):
            await engine.create(kind_of(engine, "configmaps"), "default", config_map("a"), Call())


def test_side_effects_are_refused_in_a_dry_run() -> None:
    """A webhook that may do something on a dry run makes the dry run a bad request."""
    hook = Hook({"name": "one.example.com", "sideEffects": "Some"})
    with pytest.raises(BadRequest, match=r'webhook "one\.example\.com" does not support dry run'):
        hook.check_dry_run(True)
    hook.check_dry_run(False)
