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
# What Harvester's installer leaves on a node: the bridge of the cluster network mgmt and the management VLAN on it.
ip -batch - <<BATCH
link set lo up
link add mgmt-bo type bond mode active-backup miimon 100
link set eth0 master mgmt-bo
link add mgmt-br type bridge vlan_filtering 1
link set mgmt-bo master mgmt-br up
link set mgmt-br up
link add link mgmt-br name mgmt-br.$LAB_VLAN type vlan id $LAB_VLAN
address add $LAB_ADDRESS/24 dev mgmt-br.$LAB_VLAN
link set mgmt-br.$LAB_VLAN up
route add default via $LAB_GATEWAY
BATCH
bridge vlan add vid "$LAB_VLAN" dev mgmt-br self
bridge vlan add vid "$LAB_VLAN" dev mgmt-bo
echo ready
exec </dev/null >/dev/null
while :; do
    sleep 2147483647 &
    wait
done
