# The first program of user-mode Linux: gives the read-only tree a layer to write to, then runs the tests in it.
set -eu
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
mount -t proc proc /proc
mount -t tmpfs tmpfs /run
mkdir -p /run/modules /run/find/lib/modules /run/layer/upper /run/layer/work /run/root
mount -t hostfs none /run/modules -o "$KERNEL_MODULES"
ln -s /run/modules "/run/find/lib/modules/$(uname -r)"
modprobe -a -d /run/find overlay bridge 8021q veth bonding dummy vxlan macvtap nf_tables nft_limit
echo >/proc/sys/kernel/modprobe  # the tree has no modules that could be found later
mount -t overlay overlay -o lowerdir=/,upperdir=/run/layer/upper,workdir=/run/layer/work /run/root
cd /run/root
mkdir -p inside/project inside/site inside/results
mount -t hostfs none inside/project -o "$KERNEL_PROJECT"
mount -t hostfs none inside/site -o "$KERNEL_SITE"
mount -t hostfs none inside/results -o "$KERNEL_RESULTS"
if [ -n "${KERNEL_SHARED:-}" ]; then
    mkdir inside/shared
    mount -t hostfs none inside/shared -o "$KERNEL_SHARED"
fi
mount --move /proc proc
mount -t sysfs sysfs sys
mount --bind /dev dev
# Not chroot alone: who enters a mount namespace that is made inside would come out at the old root.
pivot_root . mnt
cd /
umount -l /mnt
/bin/sh /inside/project/tests/harness/kernel/inside.sh || true
halt -f
