"""What the answers of admission webhooks do, and what happens when they don't answer."""

from tests.embedded.cases.kit.hooks import (
    Handle,
)
from tests.embedded.cases.kit.objects import Raw, widget
from tests.embedded.cases.kit.script import Api
from tests.embedded.cases.kit.suite import Area
from tests.embedded.cases.kit.webhooks import (
    DEAD,
    MUTATING,
    VALIDATING,
    WIDGETS,
    allow,
    configure,
    patching,
    ready,
    refusing,
    unless_probing,
    webhook,
)

case = Area(__name__)


@case
def may_patch(api: Api) -> None:
    """A mutating webhook's JSON patch is applied before defaults, validation and storage."""
    handle = patching(
        {"op": "add", "path": "/metadata/labels", "value": {"patched": "yes"}},
        {"op": "add", "path": "/spec/code", "value": "patched"},
    )
    ready(api, MUTATING, handle)
    api.post("widgets", widget("a", {"size": 2}), expect=201)
    api.get("widgets/a")


@case
def may_patch_what_becomes_invalid(api: Api) -> None:
    """What a webhook patches in is validated as well."""
    ready(api, MUTATING, patching({"op": "add", "path": "/spec/size", "value": 99}))
    api.post("widgets", widget("a"), expect=422)


@case
def may_patch_in_what_is_unknown(api: Api) -> None:
    """What a webhook patches in is pruned as well."""
    ready(api, MUTATING, patching({"op": "add", "path": "/spec/nonsense", "value": 1}))
    api.post("widgets", widget("a"), expect=201)


@case
def patch_one_after_the_other(api: Api) -> None:
    """Mutating webhooks see what those before them have done."""
    first = api.hook(unless_probing(patching({"op": "add", "path": "/spec/code", "value": "first"})))
    second = api.hook(
        unless_probing(
            lambda request: patching(
                {"op": "add", "path": "/spec/note", "value": f"after {request['object']['spec'].get('code')}"}
            )(request)
        )
    )
    one, two = (webhook(api, hook.client_config, name) for hook, name in ((first, "a"), (second, "b")))
    configure(api, MUTATING, one, two)
    api.post("widgets", widget("a"), expect=201)


BAD_PATCHES = {
    "fails": [{"op": "remove", "path": "/spec/nothing"}],
    "test-fails": [{"op": "test", "path": "/spec/size", "value": 77}],
    "unknown-operation": [{"op": "nonsense", "path": "/spec/size"}],
}


@case.each({name: (operations,) for name, operations in BAD_PATCHES.items()})
def with_a_patch_that_fails(api: Api, operations: list[Raw]) -> None:
    """A webhook's patch that can't be applied is the server's error."""
    ready(api, MUTATING, patching(*operations))
    api.post("widgets", widget("a", {"size": 2}), expect=-1)


STATUSES: dict[str, Raw] = {
    "nothing": {},
    "message": {"message": "The size must be even."},
    "code": {"message": "The size must be even.", "code": 422},
    "reason": {"message": "The size must be even.", "reason": "Invalid", "code": 422},
    "reason-alone": {"reason": "NotThisWay"},
    "bad-code": {"message": "x", "code": 200},
    "details": {"message": "x", "code": 409, "reason": "Conflict", "details": {"name": "y", "kind": "z"}},
    "long": {"message": "line one\nline two: ünïcode"},
}


@case.each({name: (status,) for name, status in STATUSES.items()})
def may_refuse(api: Api, status: Raw) -> None:
    """A refusal is passed on with the webhook's name and message, code and reason."""
    ready(api, VALIDATING, refusing(**status))
    api.post("widgets", widget("a"), expect=-1)
    api.get("widgets/a", expect=404)


@case
def that_mutate_may_refuse(api: Api) -> None:
    """A mutating webhook may refuse too."""
    ready(api, MUTATING, refusing(message="Not this one."))
    api.post("widgets", widget("a"), expect=-1)


@case
def may_refuse_a_deletion(api: Api) -> None:
    """A deletion may be refused, of one object and of a collection."""
    ready(
        api,
        VALIDATING,
        refusing(message="It is in use."),
        rules=[{**WIDGETS, "operations": ["DELETE"]}],
    )
    api.post("widgets", widget("a"))
    api.delete("widgets/a", expect=400)
    api.delete("widgets", expect=400)
    api.get("widgets/a")


@case
def may_warn(api: Api) -> None:
    """A webhook's warnings come as Warning headers."""
    ready(api, VALIDATING, lambda _: {"warnings": ["This is old.", 'Quoted "so" and ü']})
    api.post("widgets", widget("a"))
    api.patch("widgets/a", {"spec": {"size": 2}})


@case
def may_warn_and_refuse(api: Api) -> None:
    """Warnings come with a refusal as well."""
    ready(api, VALIDATING, lambda _: {"allowed": False, "warnings": ["Beware."]})
    api.post("widgets", widget("a"), expect=400)


@case.each(["Fail", "Ignore"])
def that_are_dead(api: Api, policy: str) -> None:
    """Whether a webhook that can't be reached refuses is its failure policy."""
    configure(
        api, VALIDATING, webhook(api, DEAD, failurePolicy=policy, objectSelector={"matchLabels": {"a": "b"}})
    )
    api.post("widgets", widget("a", labels={"a": "b"}), expect=-1)
    api.get("widgets/a", expect=-1)


@case.each(["Fail", "Ignore"])
def that_mutate_and_are_dead(api: Api, policy: str) -> None:
    """The failure policy holds for mutating webhooks too."""
    configure(
        api, MUTATING, webhook(api, DEAD, failurePolicy=policy, objectSelector={"matchLabels": {"a": "b"}})
    )
    api.post("widgets", widget("a", labels={"a": "b"}), expect=-1)


@case.each(["Fail", "Ignore"])
def with_an_untrusted_certificate(api: Api, policy: str) -> None:
    """A webhook whose certificate its caBundle doesn't vouch for is as good as dead."""
    hook = api.hook(unless_probing(allow))
    config = {"url": hook.url}
    selector = {"matchLabels": {"a": "b"}}
    configure(api, VALIDATING, webhook(api, config, failurePolicy=policy, objectSelector=selector))
    answer = api.post("widgets", widget("a", labels={"a": "b"}), expect=-1)
    api.note("asked", hook.called)
    api.note("status", answer.status)


BAD_ANSWERS: dict[str, Handle] = {
    "wrong-uid": lambda _: {"uid": "nonsense"},
    "patch-without-type": lambda _: {"patch": "W10="},
    "type-without-patch": lambda _: {"patchType": "JSONPatch"},
    "unknown-patch-type": lambda _: {"patch": "W10=", "patchType": "Nonsense"},
    "patch-no-json": lambda _: {"patch": "e30=", "patchType": "JSONPatch"},
}


@case.each({name: (handle,) for name, handle in BAD_ANSWERS.items()})
def with_a_bad_answer(api: Api, handle: Handle) -> None:
    """A review that is answered wrongly is the server's error."""
    ready(api, MUTATING, handle)
    api.post("widgets", widget("a"), expect=-1)
