"""Reviews: `kubectl auth` asks who a user is and what they may do. They are answered and never kept."""

import msgspec

from lanloom.api.admission import UserInfo
from lanloom.apiserver import errors
from lanloom.apiserver.authz import Attempt, Authorizer
from lanloom.apiserver.front import bodies
from lanloom.apiserver.front.accept import negotiate
from lanloom.apiserver.front.exchange import Exchange
from lanloom.apiserver.front.rendering import encode
from lanloom.apiserver.kinds import Raw, ServedKind
from lanloom.apiserver.tokens import AUTHENTICATED


class Reviews:
    """Answers access reviews by the authorizer's own decisions."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    async def serve(self, exchange: Exchange, kind: ServedKind, verb: str, user: UserInfo) -> None:
        """Answers one review. Raises MethodNotAllowed, BadRequest."""
        if verb != "create":
            raise errors.wrong_method()
        form = negotiate(exchange.header(b"accept"))
        body = bodies.decode_object(
            await bodies.read(exchange.receive), exchange.header(b"content-type"), kind.kind
        )
        spec = body.get("spec") or {}
        match kind.kind:
            case "SelfSubjectRulesReview":
                status = self._rules(user, str(spec.get("namespace", "")))
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


def _subject(kind: ServedKind, spec: Raw, user: UserInfo) -> UserInfo:
    if kind.kind == "SelfSubjectAccessReview":
        return user
    groups = tuple(spec.get("groups") or ())
    return UserInfo(username=str(spec.get("user", "")), groups=(*groups, AUTHENTICATED))


def _attempt(spec: Raw) -> Attempt:
    wanted = spec.get("resourceAttributes")
    if wanted is None:
        other = spec.get("nonResourceAttributes") or {}
        return Attempt(verb=other.get("verb", ""), path=other.get("path", ""))
    return Attempt(
        verb=wanted.get("verb", ""),
        group=wanted.get("group", ""),
        resource=wanted.get("resource", ""),
        subresource=wanted.get("subresource", ""),
        namespace=wanted.get("namespace", ""),
        name=wanted.get("name", ""),
    )
