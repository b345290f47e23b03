# PID 1 of a node: gives itself a root of its own, waits until its NICs are plugged in, then reaps what nobody waits for.
#
# It begins in fresh namespaces of the inner side and prints its PID there, by which the daemon finds it.
set -eu
read -r pid _ </proc/self/stat
echo "$pid"
mount --all --fstab "$LAB_FSTAB"
cd "$LAB_ROOT"
pivot_root . mnt
cd /
umount -l /mnt
echo "$LAB_NAME" >/proc/sys/kernel/hostname
read -r _
ip -batch - <<BATCH
link set lo up
address add $LAB_ADDRESS/24 dev eth0
link set eth0 up
BATCH
echo ready
exec </dev/null >/dev/null
while :; do
    sleep 2147483647 &
    wait
done
