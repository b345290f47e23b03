# On the machine's own kernel, in fresh namespaces: the tree ($1) with a layer to write to as root, then the tests in it.
set -eu
mount --make-rprivate /
mount --bind "$KERNEL_RESULTS" /mnt
mount -t tmpfs tmpfs "$2"
mkdir -p "$2/upper" "$2/work" "$2/root"
mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" "$2/root"
cd "$2/root"
mkdir -p inside/project inside/site inside/results
mount --bind "$KERNEL_PROJECT" inside/project
mount --bind "$KERNEL_SITE" inside/site
mount --bind /mnt inside/results
if [ -n "${KERNEL_SHARED:-}" ]; then
    mkdir inside/shared
    mount --bind "$KERNEL_SHARED" inside/shared
    mount -o remount,bind,ro inside/shared
fi
mount -t proc proc proc
mount -t sysfs sysfs sys
mount --rbind /dev dev
pivot_root . mnt
cd /
umount -l /mnt
exec /bin/sh /inside/project/tests/harness/kernel/inside.sh
