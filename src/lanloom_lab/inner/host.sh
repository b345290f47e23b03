# The inner side on the host's own kernel: the private tree becomes the root of a mount namespace, then the inner daemon runs.
#
# It begins in namespaces of the lab's own. The tree is mounted read-only, because all labs of this user share it. LAB_* come
# from the supervisor, which has built the management bridge already.
set -eu
mount --bind "$LAB_TREE" "$LAB_TREE"
mount -o remount,bind,ro "$LAB_TREE"
cd "$LAB_TREE"
mount -t tmpfs tmpfs mnt
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
mount -t proc proc proc
mount -t sysfs sysfs sys
mount --rbind /dev dev
mkdir mnt/src mnt/site mnt/state mnt/guests mnt/old
mount --bind "$LAB_SRC" mnt/src
mount --bind "$LAB_SITE" mnt/site
mount --bind "$LAB_STATE" mnt/state
mount --bind "$LAB_GUESTS" mnt/guests
pivot_root . mnt/old
cd /
umount -l /mnt/old
rmdir /mnt/old
export PATH=/usr/sbin:/usr/bin HOME=/root LANG=C.UTF-8
export PYTHONPATH=/mnt/src:/mnt/site PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
exec python3 -m lanloom_lab.inner.daemon
