"""The table of `docs/security.md`, as the cases say."""

from pathlib import Path

from tests.security.cases import ACTIONS, ROLES, Action

PAGE = Path(__file__).parents[2] / "docs/security.md"
BEGIN, END = "<!-- written by tests/security/test_matrix.py -->", "<!-- end -->"


def with_table(page: str) -> str:
    """The page with its table rewritten."""
    head, found, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    assert found, f"{PAGE} has no place for the table"
    return f"{head}{BEGIN}\n\n{table()}\n{END}{tail}"


def table() -> str:
    """A row for each action, a column for each role."""
    heads = ["Action", *ROLES.values(), "Restricted or opened by"]
    rows = [
        [title, *(_cell(action, role) for role in ROLES), action.option] for title, action in ACTIONS.items()
    ]
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _cell(action: Action, role: str) -> str:
    if role in action.allowed.split():
        return "✓"
    return "✗" if role in action.refused.split() else ""
