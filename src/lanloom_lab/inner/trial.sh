# The first program of a user-mode Linux that is only tried: modules of this kernel, processes that compute, and the end.
set -eu
export PATH=/usr/sbin:/usr/bin HOME=/root LANG=C.UTF-8
mount -t proc proc /proc
mount -t tmpfs tmpfs /run
mkdir -p /run/modules /run/links/lib/modules
mount -t hostfs none /run/modules -o "$LAB_MODULES"
read -r _ _ release _ </proc/version
ln -s /run/modules "/run/links/lib/modules/$release"
modprobe -a -d /run/links bridge 8021q bonding overlay
# Floating point in two processes that take turns: their registers are saved and restored.
python3 -c 'import os
for _ in range(8):
    if os.fork() == 0:
        os._exit(int(sum(x * 0.5 for x in range(1000)) != 249750.0))
for _ in range(8):
    if os.wait()[1]:
        raise SystemExit("it can not compute")'
echo 'lanloom: this kernel boots'
python3 -c 'import ctypes; ctypes.CDLL(None).reboot(0x4321FEDC)'
