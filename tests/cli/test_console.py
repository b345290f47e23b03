"""What commands print on terminals and into pipes."""

import io

import pytest
from rich.table import Table

from lanloom.cli.console import console, print_table
from lanloom.cli.tables import print_rows
from lanloom.features.vlan.views.overview import ROW_FIELDS, Row

ROW = Row(
    cluster_network="cluster-1",
    node="node1",
    bridge="cluster-1-br",
    vlan_ids="1,100-199,300,2012-2013",
    interface="clust-4afb.2012",
    address="192.168.100.189/24",
    assigned="DHCP",
    state="DHCPTimeout",
)
NAMES = (ROW.node, ROW.bridge, ROW.interface, ROW.address)


class Terminal(io.StringIO):
    """A file that says it is a terminal."""

    def isatty(self) -> bool:
        """It is one."""
        return True


def _printed(file: io.StringIO) -> list[str]:
    print_rows(console(file), ROW_FIELDS, (ROW,))
    return file.getvalue().splitlines()


def test_a_pipe_gets_whole_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Into a pipe, a row is one line without blanks at its end, however long it is; nothing is cut."""
    monkeypatch.delenv("COLUMNS", raising=False)
    lines = _printed(io.StringIO())
    (row,) = (line for line in lines if "node1" in line)
    assert row.split() == [
        *NAMES[:2],
        "1,",
        "100-199,",
        "300,",
        "2012-2013",
        *NAMES[2:],
        "DHCP",
        "(DHCPTimeout)",
    ]
    assert lines == [line.rstrip() for line in lines]


@pytest.mark.parametrize("columns", ["40", "60", "80"])
def test_a_narrow_terminal_folds_no_name(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a narrow terminal no name, address or range of VLAN ids is folded or left out; 80 columns are enough."""
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    lines = _printed(Terminal())
    text = "\n".join(lines)
    assert all(name in text for name in (*NAMES, "2012-2013"))
    assert max(len(line.rstrip()) for line in lines) <= 80


@pytest.mark.parametrize("file", [io.StringIO(), Terminal()], ids=["pipe", "terminal"])
def test_addresses_are_no_emoji(file: io.StringIO) -> None:
    """What looks like the short name of an emoji within an address is printed as it is, in lines and in tables."""
    texts = ("aa:00:00:ab:17:55", "2001:db8:ab:1::")
    target, rows = console(file), Table()
    for text in texts:
        target.print(text, markup=False)
        rows.add_row(text)
    print_table(target, rows)
    assert [file.getvalue().count(text) for text in texts] == [2, 2]
