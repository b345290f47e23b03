"""The programs `lanloom` and `kubectl-lanloom`: the help of all commands at once, and the rest from `lanloom.command`.

People ask for that help most, and what makes it takes three times as long to import as Python takes to start. So its
text is a file that `make manifests` writes, and nothing is imported to print it.
"""

import os
import sys

PLUGIN = "kubectl-lanloom"
"""The name by which kubectl finds the command as a plugin of its own."""

COLUMNS = 80
"""The text is folded for terminals of as many columns, and so for wider ones too."""

_USAGE = "Usage: lanloom "


def main() -> None:
    """Run the command line."""
    called = "kubectl lanloom" if sys.argv[0].rpartition("/")[2] == PLUGIN else "lanloom"
    if len(sys.argv) == 2 and sys.argv[1] in ("-h", "--help") and _columns() >= COLUMNS:
        try:
            sys.stdout.write(help_text().replace(_USAGE, f"Usage: {called} ", 1))
            sys.stdout.flush()
            return
        except OSError:  # no space, or no reader: what follows fails of it as all commands do, and reports it
            pass
    import atexit
    import gc

    from lanloom.runtime.slimimports import uncollected

    # At its end the interpreter looks for garbage once more. The system takes all anyhow.
    atexit.register(gc.freeze)
    with uncollected():
        from lanloom.command import main as run

        gc.freeze()  # modules are no garbage: the first search would look through all of them

    run(called)


def help_text() -> str:
    """Return the help of all commands, as it is for `lanloom`."""
    with open(os.path.join(os.path.dirname(__file__), "help.txt"), encoding="utf-8") as file:  # noqa: PTH118, PTH120, PTH123
        return file.read()


def _columns() -> int:
    """Return the columns of the terminal, as shutil and click do."""
    try:
        return int(os.environ["COLUMNS"]) or COLUMNS
    except (KeyError, ValueError):
        pass
    try:
        return os.get_terminal_size(1).columns or COLUMNS
    except OSError:
        return COLUMNS
