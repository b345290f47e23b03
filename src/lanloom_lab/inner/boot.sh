# The first program of the lab's user-mode Linux: modules and directories of the host, then the inner daemon as PID 1.
#
# Everything that is written stays in memory or goes to the lab's state directory: the tree is mounted read-only, because
# all labs of this user share it. LAB_* come from the kernel's command line.
set -eu
# A PID 1 that merely ends would leave a kernel that hangs in panic, and nobody the wiser.
trap 'python3 -c "import ctypes; ctypes.CDLL(None).reboot(0x4321FEDC)"' EXIT
export PATH=/usr/sbin:/usr/bin HOME=/root LANG=C.UTF-8
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mkdir /dev/pts
mount -t devpts devpts /dev/pts -o mode=620,ptmxmode=666
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /tmp
mkdir -p /mnt/site /mnt/state /mnt/guests /mnt/modules "/run/modules/lib/modules"
mount -t hostfs none /mnt/site -o "$LAB_SITE"
mount -t hostfs none /mnt/state -o "$LAB_STATE"
mount -t hostfs none /mnt/guests -o "$LAB_GUESTS"
mount -t hostfs none /mnt/modules -o "$LAB_MODULES"
read -r _ _ release _ </proc/version
ln -s /mnt/modules "/run/modules/lib/modules/$release"
modprobe -a -d /run/modules bridge 8021q veth bonding overlay dummy vxlan macvtap nf_tables nft_limit tun
# The kernel would start modprobe for each module that a program asks for, and it finds none in the tree.
echo >/proc/sys/kernel/modprobe
ip link add mgmt address "$LAB_MAC" type bridge vlan_filtering 1 vlan_default_pvid "$LAB_VLAN"
ip -batch - <<BATCH
link set lo up
link set vec0 master mgmt up
link set mgmt up
address add $LAB_ADDRESS/24 dev mgmt
BATCH
export PYTHONPATH=/mnt/src:/mnt/site PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
exec python3 -m lanloom_lab.inner.daemon
