#!/bin/sh
""":"
# How the installed plugin begins; plugin.py follows. To a shell the line above is an empty command, and what follows is a
# script that hands over to Python; to Python all of it is a string. So a host without a Python that can run the plugin
# gets an answer that says so, instead of a runtime's riddle that the plugin does not exist. A DEL succeeds all the same.
# No backslash may be in here, nor three quotation marks in a row.
complaint='{"cniVersion": "1.0.0", "code": 102, "msg": "the CNI plugin lanloom-ipam needs Python 3.6 or later on this node; install it as /usr/bin/python3"}'
for python in /usr/bin/python3 /usr/libexec/platform-python "$(command -v python3)"; do
    [ -x "$python" ] && exec "$python" -IS -c '
import sys
program, command, complaint = sys.argv[1:]
if sys.version_info >= (3, 6):
    with open(program, "rb") as file:
        exec(compile(file.read(), program, "exec"))
(sys.stderr if command == "DEL" else sys.stdout).write(complaint)
sys.exit(command != "DEL")
' "$0" "$CNI_COMMAND" "$complaint"
done
if [ "$CNI_COMMAND" = DEL ]; then
    echo "$complaint" >&2
    exit 0
fi
echo "$complaint"
exit 1
":"""
