# Runs one container of a pod on a node, and answers its kubelet: `sh shim.sh DIRECTORY MOUNTS PROGRAM…`.
#
# MOUNTS are lines of fstab(5). Prints `started`, and `ended STATUS MESSAGE` with what was left in the termination log, in
# base64. Asked `look PATH`, it prints `ready` or `unready`, as the path is there or not in the container; asked
# `probe COMMAND`, as that command of the container succeeds. `term` and `kill` are signals. When there is nothing more to
# read, it makes the container end, and ends.
set -u
directory=$1 mounts=$2
shift 2
mkdir -p "$directory/dev"
rm -f "$directory/pid"
: >"$directory/message"
printf '%s' "$mounts" >"$directory/fstab"
(
    # shellcheck disable=SC2016
    unshare --mount sh -euc '
        directory=$1
        shift
        echo $$ >"$directory/pid"
        mount --all --fstab "$directory/fstab"
        ln -s "$directory"/dev/* "$directory/message" /dev/
        mv /dev/message /dev/termination-log
        echo started >&3
        exec env --chdir=/ --unset=KUBECONFIG "$@" 3>&-
    ' container "$directory" "$@" 3>&1 >&2 </dev/null
    status=$?
    echo "ended $status $(head -c 4096 "$directory/message" | base64 --wrap=0)"
) &
while read -r word rest; do
    pid=$(cat "$directory/pid" 2>/dev/null) || continue
    case $word in
    look) if [ -e "/proc/$pid/root$rest" ]; then echo ready; else echo unready; fi ;;
    probe) if eval "nsenter --target=$pid --mount -- $rest" >&2 </dev/null; then echo ready; else echo unready; fi ;;
    term) kill -TERM "$pid" ;;
    kill) kill -KILL "$pid" ;;
    esac
done
pid=$(cat "$directory/pid" 2>/dev/null) && kill -KILL "$pid" 2>/dev/null
wait
