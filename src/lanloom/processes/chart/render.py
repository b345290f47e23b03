"""Render templates of the chart: the subset of helm's language that they keep to.

An action that is not of the subset is refused, so a template that helm alone could render does not pass the tests:

    {{ .Values.a.b }}  {{ .Values.a | toJson }}  {{ .Release.Namespace }}  {{ . }}
    {{ if X }}  {{ if not X }}  {{ if eq X "text" }}  {{ if ne X "text" }}
    {{ if has "text" X }}  {{ else }}  {{ end }}  {{ range X }}
    {{ if lookup "version" "kind" "namespace" "name" }}, which finds nothing: there is no cluster to ask
    {{ .Files.Get "name" }}  {{ define "name" }}  {{ include "name" . }}
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec import Struct

Raw = dict[str, Any]

_ACTION = re.compile(r"(\s*)\{\{(-?)\s*(.*?)\s*(-?)\}\}(\s*)", re.DOTALL)
_BLOCK = re.compile(r"(if|range|define|else|end)\b\s*(.*)")
_COMPARISON = re.compile(r'(eq|ne) (\S+) "([^"]*)"')
_MEMBER = re.compile(r'has "([^"]*)" (\S+)')
_LOOKUP = re.compile(r'\(?lookup( "[^"]*"){4}\)?')
_CALL = re.compile(r'(include|\.Files\.Get) "([^"]+)"( \.)?')
_PATH = re.compile(r"(\.[A-Za-z.]*)( \| toJson)?")


class TemplateError(Exception):
    """A template has an action that is not of the subset, or names a value that does not exist."""


class Text(Struct, frozen=True):
    """Characters that are printed."""

    text: str


class Print(Struct, frozen=True):
    """An expression that is printed."""

    expression: str


class Block(Struct, frozen=True):
    """`if`, `range` or `define`, what is inside, and what is after `else`."""

    kind: str
    argument: str
    body: "tuple[Node, ...]"
    otherwise: "tuple[Node, ...]" = ()


Node = Text | Print | Block


def parse(template: str) -> tuple[Node, ...]:
    """Return the nodes of a template. Raises TemplateError."""
    nodes, ended = _parse(_tokens(template))
    if ended:
        raise TemplateError(f"{{{{ {ended} }}}} has no beginning")
    return nodes


def _tokens(template: str) -> Iterator[tuple[str, str]]:
    """Return texts and actions in turn, the texts without the space that an action trims."""
    position = 0
    trimmed = False
    for match in _ACTION.finditer(template):
        before = template[position : match.start(2) - 2]
        before = before.lstrip() if trimmed else before
        yield "text", before.rstrip() if match[2] else before
        yield "action", match[3]
        trimmed, position = bool(match[4]), match.start(5)
    rest = template[position:]
    yield "text", rest.lstrip() if trimmed else rest


def _parse(tokens: Iterator[tuple[str, str]]) -> tuple[tuple[Node, ...], str]:
    """Return the nodes up to an `else` or `end` of the surrounding block, and which of them it was."""
    nodes: list[Node] = []
    for kind, text in tokens:
        if kind == "text":
            nodes.append(Text(text))
        elif not (block := _BLOCK.fullmatch(text)):
            nodes.append(Print(text))
        elif block[1] in ("else", "end"):
            return tuple(nodes), block[1]
        else:
            nodes.append(_block(block[1], block[2], tokens))
    return tuple(nodes), ""


def _block(kind: str, argument: str, tokens: Iterator[tuple[str, str]]) -> Block:
    body, ended = _parse(tokens)
    otherwise: tuple[Node, ...] = ()
    if ended == "else":
        otherwise, ended = _parse(tokens)
    if ended != "end":
        raise TemplateError(f"{{{{ {kind} {argument} }}}} has no end")
    return Block(kind, argument, body, otherwise)


class Renderer:
    """Render templates with the same data: `Values`, `Release` and `Chart`; `files` are those of the chart."""

    def __init__(self, data: Raw, files: Mapping[str, str]) -> None:
        self._data = data
        self._files = files
        self._defined: dict[str, tuple[Node, ...]] = {}

    def render(self, template: str) -> str:
        """Return the text of a template, and remember what it defines. Raises TemplateError."""
        return self._render(parse(template), self._data)

    def _render(self, nodes: tuple[Node, ...], dot: Any) -> str:
        return "".join(self._node(node, dot) for node in nodes)

    def _node(self, node: Node, dot: Any) -> str:
        if isinstance(node, Text):
            return node.text
        if isinstance(node, Print):
            return self._print(node.expression, dot)
        blocks: dict[str, Callable[[Block, Any], str]] = {
            "if": self._if,
            "range": self._range,
            "define": self._define,
        }
        return blocks[node.kind](node, dot)

    def _if(self, block: Block, dot: Any) -> str:
        return self._render(block.body if self._holds(block.argument, dot) else block.otherwise, dot)

    def _range(self, block: Block, dot: Any) -> str:
        return "".join(self._render(block.body, each) for each in self._value(block.argument, dot))

    def _define(self, block: Block, _: Any) -> str:
        self._defined[block.argument.strip('"')] = block.body
        return ""

    def _holds(self, condition: str, dot: Any) -> bool:
        if compared := _COMPARISON.fullmatch(condition):
            equal: bool = self._value(compared[2], dot) == compared[3]
            return equal == (compared[1] == "eq")
        if member := _MEMBER.fullmatch(condition):
            return member[1] in self._value(member[2], dot)
        if _LOOKUP.fullmatch(condition):
            return False
        if condition.startswith("not "):
            return not self._holds(condition[4:], dot)
        return bool(self._value(condition, dot))

    def _print(self, expression: str, dot: Any) -> str:
        if called := _CALL.fullmatch(expression):
            return self._called(called[1], called[2], dot)
        if not (path := _PATH.fullmatch(expression)):
            raise TemplateError(f"{{{{ {expression} }}}} is not of the subset that Lanloom renders")
        value = self._value(path[1], dot)
        if path[2]:
            return _json(value)
        if not isinstance(value, str):
            raise TemplateError(f"{{{{ {expression} }}}} is not a string: print it with toJson")
        return value

    def _called(self, function: str, name: str, dot: Any) -> str:
        found = self._files if function == ".Files.Get" else self._defined
        if name not in found:
            raise TemplateError(f"{function} {name}: there is none")
        return self._files[name] if found is self._files else self._render(self._defined[name], dot)

    def _value(self, path: str, dot: Any) -> Any:
        value = dot
        for key in filter(None, path.split(".")):
            if not isinstance(value, dict) or key not in value:
                raise TemplateError(f"{path}: {key} does not exist")
            value = value[key]
        return value


def _json(value: Any) -> str:
    """Return what Go's encoder writes, which escapes what HTML could take for its own."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.replace("&", r"\u0026").replace("<", r"\u003c").replace(">", r"\u003e")
