# PID 1 of the switch's DHCP servers: a VLAN link for each network on the one trunk, then waits for ever.
set -eu
read -r pid _ </proc/self/stat
echo "$pid"
mount -t proc proc /proc
read -r _
ip -batch "$LAB_LINKS"
echo ready
exec </dev/null >/dev/null
while :; do
    sleep 2147483647 &
    wait
done
