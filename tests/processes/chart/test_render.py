"""The subset of helm's language that Lanloom renders by itself."""

import pytest

from lanloom.processes.chart.render import Renderer, TemplateError

DATA = {"Values": {"on": True, "off": "", "name": "a<b", "list": ["x", "y"], "number": 3}}


def render(template: str) -> str:
    """The text of a template with the values above."""
    return Renderer(DATA, {"f": "file {{ not ours }}"}).render(template)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("a: {{ .Values.name }}\n", "a: a<b\n"),
        ("a: {{ .Values.name | toJson }}\n", 'a: "a\\u003cb"\n'),
        ("a\n{{- if .Values.on }}\nb\n{{- end }}\nc", "a\nb\nc"),
        ("a\n{{- if .Values.off }}\nb\n{{- else }}\nd\n{{- end }}\nc", "a\nd\nc"),
        ("{{ if not .Values.off }}b{{ end }}", "b"),
        ('{{ if has "x" .Values.list }}b{{ end }}{{ if has "z" .Values.list }}c{{ end }}', "b"),
        ('{{ if eq .Values.name "a<b" }}b{{ end }}{{ if ne .Values.name "a<b" }}c{{ end }}', "b"),
        ("l:\n{{- range .Values.list }}\n- {{ . }}\n{{- end }}\n", "l:\n- x\n- y\n"),
        ('{{ .Files.Get "f" }}', "file {{ not ours }}"),
        ('{{ define "n" -}}\n {{ .Values.name }} \n{{- end }}<{{ include "n" . }}>', "<a<b>"),
    ],
)
def test_the_subset(template: str, text: str) -> None:
    """A template gives the text that helm gives."""
    assert render(template) == text


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{{ .Values.name | upper }}", "not of the subset"),
        ("{{ .Values.none }}", "none does not exist"),
        ("{{ .Values.number }}", "print it with toJson"),
        ("{{ if .Values.on }}", "has no end"),
        ("{{ end }}", "has no beginning"),
        ('{{ include "n" . }}', "there is none"),
        ("{{ if and .Values.on .Values.off }}a{{ end }}", "does not exist"),
    ],
)
def test_what_is_not_of_the_subset_is_refused(template: str, reason: str) -> None:
    """An action that only helm understands is an error and is never printed."""
    with pytest.raises(TemplateError, match=reason):
        render(template)
