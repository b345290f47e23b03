"""Reviews: `kubectl auth` asks who a user is and what they may do. They are answered and never kept."""

import msgspec

from lanloom.api.admission import UserInfo
from lanloom.runtime.https import errors
from lanloom_embedded.authz import Attempt, Authorizer
from lanloom_embedded.engine import metadata
from lanloom_embedded.engine.metadata import check_type
from lanloom_embedded.engine.strategies import BuiltinStrategy
from lanloom_embedded.front.authentication import AUTHENTICATED
from lanloom_embedded.front.exchange import Exchange
from lanloom_embedded.front.rendering import encode, negotiate
from lanloom_embedded.kinds import Raw, ServedKind


class Reviews:
    """Answers access reviews by the authorizer's own decisions."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    async def serve(self, exchange: Exchange, kind: ServedKind, verb: str, user: UserInfo) -> None:
        """Answer one review. Raises MethodNotAllowed, BadRequest, Invalid."""
        if verb != "create":
            raise errors.wrong_method()
        form = negotiate(exchange.header(b"accept"))
        body = await exchange.read_object(kind.kind)
        spec = _checked(kind, body).get("spec", {})
        match kind.kind:
            case "SelfSubjectRulesReview":
                status = self._rules(user, spec.get("namespace", ""))
            case "SelfSubjectReview":
                status = {"userInfo": msgspec.to_builtins(user)}
            case _:
                status = self._decision(_subject(kind, spec, user), spec)
        head = {"kind": kind.kind, "apiVersion": kind.api_version}
        answer = {**head, "metadata": {"creationTimestamp": None}, "spec": spec, "status": status}
        await exchange.answer(encode(answer, form), code=201, form=form)

    def _decision(self, user: UserInfo, spec: Raw) -> Raw:
        return {"allowed": self._authorizer.allows(user, _attempt(spec))}

    def _rules(self, user: UserInfo, namespace: str) -> Raw:
        rules = list(self._authorizer.rules(user, namespace))
        return {
            "resourceRules": [rule for rule in rules if rule.get("resources")],
            "nonResourceRules": [rule for rule in rules if rule.get("nonResourceURLs")],
            "incomplete": False,
        }


def _checked(kind: ServedKind, body: Raw) -> Raw:
    """Return the review without unknown fields and nulls. Raises BadRequest for wrong types, Invalid."""
    check_type(kind, body)
    obj = {**body, "metadata": metadata.clean(body.get("metadata"), kind.kind)}
    strategy = BuiltinStrategy(kind)
    strategy.decode(obj)
    if found := strategy.check(obj, None):
        raise errors.invalid(kind.qualified_kind, "", found)
    return obj


def _subject(kind: ServedKind, spec: Raw, user: UserInfo) -> UserInfo:
    if kind.kind == "SelfSubjectAccessReview":
        return user
    groups = tuple(spec.get("groups", ()))
    return UserInfo(username=spec.get("user", ""), groups=(*groups, AUTHENTICATED))


def _attempt(spec: Raw) -> Attempt:
    wanted = spec.get("resourceAttributes")
    if wanted is None:
        other = spec.get("nonResourceAttributes", {})
        return Attempt(verb=other.get("verb", ""), path=other.get("path", ""))
    return Attempt(
        verb=wanted.get("verb", ""),
        group=wanted.get("group", ""),
        resource=wanted.get("resource", ""),
        subresource=wanted.get("subresource", ""),
        namespace=wanted.get("namespace", ""),
        name=wanted.get("name", ""),
    )
