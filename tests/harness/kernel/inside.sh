# In the tree, as root, on a kernel with all features: runs the tests. Everything but /inside/results is thrown away.
set -eu
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /tmp
ip link set lo up
export PYTHONPATH=/inside/site PYTHONDONTWRITEBYTECODE=1
cd /inside/project
. /inside/results/command
