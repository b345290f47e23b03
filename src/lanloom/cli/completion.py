"""The completion script for bash. That of click loses what is in front of a `=`, `:` or `@`, as in `--output=js`.

Readline cuts words at the characters of COMP_WORDBREAKS, gives the pieces to a completion function, and replaces only
the last of them, `$2`. So the script joins the pieces to words for the command, and answers with what follows the
pieces that stay.
"""

import click
from click.shell_completion import BashComplete

SCRIPT = r"""_lanloom_completion() {
    local IFS=$'\n' line=$COMP_LINE words=() index piece rest response completion type value option= head
    for ((index = 0; index <= COMP_CWORD; index++)); do
        piece=${COMP_WORDS[index]}
        rest=${line#"${line%%[![:space:]]*}"}
        if [[ $index -gt 0 && -n $line && $rest == "$line" ]]; then
            words[-1]+=$piece
        else
            words+=("$piece")
        fi
        line=${rest#"$piece"}
    done
    head=${words[-1]%"$2"}
    [[ ${words[-1]} == --*=* ]] && option=${words[-1]%%=*}=
    response=$(env COMP_WORDS="${words[*]}" COMP_CWORD=$((${#words[@]} - 1)) _LANLOOM_COMPLETE=bash_complete "$1")
    COMPREPLY=()
    for completion in $response; do
        IFS=',' read -r type value <<< "$completion"
        case $type in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain) value=$option$value; COMPREPLY+=("${value#"$head"}") ;;
        esac
    done
    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=:,/] ]] && compopt -o nospace
    return 0
}
complete -o nosort -F _lanloom_completion lanloom
"""


class _Bash(BashComplete):
    """Completion for bash."""

    def source(self) -> str:
        """Return the script; warn of a bash that is too old for it."""
        self._check_version()
        return SCRIPT


def bash_source(root: click.Command) -> str:
    """Return the script; warn of a bash that is too old for it."""
    return _Bash(root, {}, "lanloom", "_LANLOOM_COMPLETE").source()
