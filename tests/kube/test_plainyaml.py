"""Plain YAML is what PyYAML reads, or nothing."""

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from lanloom.kube.plainyaml import read

KUBECTL = b"""\
apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg==
    server: https://192.0.2.1:6443
  name: a
- cluster:
    insecure-skip-tls-verify: true
    server: https://[2001:db8::1]:6443
  name: "b"
contexts:
- context:
    cluster: a
    namespace: 3scale
    user: alice@example.org
  name: alice@a
current-context: alice@a
kind: Config
preferences: {}
users:
  # of a cloud
  - name: alice@example.org
    user:
      token: '3f!:# x'
      client-key: /home/alice/key.pem
  - name:   bob
    user:

"""

WORDS = [
    "a",
    "a:",
    "a: b",
    "- a",
    "- a: b",
    "-",
    "- - a",
    "? a",
    "a: |",
    "a: >-",
    "&a b",
    "*a",
    "!!str a",
    "<<: a",
]
WORDS += [
    "a: {}",
    "a: []",
    "{a: b}",
    "a: 'b'",
    'a: "b"',
    "a: 'it''s'",
    'a: "\\n"',
    "a: b # c",
    "# c",
    "---",
    "...",
]
WORDS += [
    "a: 1",
    "a: 0x1g",
    "a: 1e3",
    "a: 190:20:30",
    "a: 2001-12-14",
    "a: 2001-12-14t21:59:43z",
    "a: 1_000",
    "a: .5",
]
WORDS += [
    "a: yes",
    "yes: a",
    "a: Null",
    "a: ~",
    "a: =",
    "a: a:",
    "a: b: c",
    "a:b",
    "a: -b",
    "a: é",
    "a:\tb",
    "a: b\t",
]
WORDS += [
    "a: _1",
    "a: 0b1",
    "a: 12k",
    "a: /",
    "b:",
    "c: d",
    "b: 0o7",
    "a: 1.5.2",
    "a: +1",
    "a: %b",
    "a: @b",
    "a : b",
]


def test_kubeconfigs_of_kubectl_are_plain() -> None:
    """What kubectl writes is read without PyYAML, and so are quotes, comments and indented lists."""
    body = KUBECTL.replace(b"https://[2001:db8::1]:6443", b"https://b:6443")
    assert read(body) == yaml.safe_load(body)
    assert read(body)["users"][0]["user"]["token"] == "3f!:# x"


@pytest.mark.parametrize(
    "text", [KUBECTL, b"", b"a", b"- a", b"[a]", "a: é".encode(), b"a: b\xff", b"a: b\r\n"]
)
def test_everything_else_is_left_to_pyyaml(text: bytes) -> None:
    """A document is read whole or not at all."""
    assert read(text) is None


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("form", ["{}", "k:\n  {}", "k:\n- {}", "k: {}", "{}\nz: y", "k:\n  {}\nz: y"])
def test_a_word_is_read_as_pyyaml_reads_it(form: str, word: str) -> None:
    """No word is taken for a string that is something else."""
    _agrees(form.format(word))


lines = st.tuples(st.integers(0, 5), st.sampled_from(WORDS)).map(lambda line: " " * line[0] + line[1])
values: st.SearchStrategy[Any] = st.recursive(
    st.text("abk019:-_./ #'\"\\xe+Tz", max_size=8) | st.booleans() | st.none() | st.integers(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("ab-_1y", max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.lists(lines, max_size=8).map("\n".join))
def test_any_lines_are_read_as_pyyaml_reads_them(text: str) -> None:
    """Whatever the lines are, what is returned is what PyYAML returns."""
    _agrees(text)


@given(st.text("ab:- \n#'\"{}[]|>&*!%@`,?~=<\t\r.1", max_size=30))
def test_any_text_is_read_as_pyyaml_reads_it(text: str) -> None:
    """Whatever the characters are, what is returned is what PyYAML returns."""
    _agrees(text)


@given(values)
def test_any_value_is_read_as_it_was_written(value: Any) -> None:
    """What PyYAML writes in block style is returned as it was, or not at all."""
    text = yaml.safe_dump({"k": value}, default_flow_style=False, width=1000)
    found = read(text.encode())
    assert found is None or found == {"k": value}


def _agrees(text: str) -> None:
    found = read(text.encode())
    assert found is None or _same(found, yaml.safe_load(text))


def _same(one: object, other: object) -> bool:
    return one == other and repr(one) == repr(other)
