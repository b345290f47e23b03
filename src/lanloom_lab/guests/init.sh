#!/bin/sh
# The first program of a guest: brings up its network, then runs the commands that come on the serial console.
/bin/busybox mkdir -p /proc /sys /dev /sbin /usr/bin /usr/sbin
/bin/busybox --install -s
export PATH=/bin:/sbin:/usr/bin:/usr/sbin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
stty -echo -onlcr

for module in $(cat /modules/order); do
    insmod "/modules/$module" || echo "guest: can't load the module $module"
done

# A second interface behind the guest's own, as of a machine inside the guest: its frames come from another address.
add_foreign() { # HARDWARE-ADDRESS ADDRESS
    ip link add name foreign link eth0 type macvlan
    ip link set foreign address "$1" up
    ip address add "$2" dev foreign
    # The kernel must not answer at one interface for the addresses of the other.
    echo 1 >/proc/sys/net/ipv4/conf/all/arp_ignore
}

# The identity of this boot, which a guest keeps when it is moved or restored.
boot_id() { cat /proc/sys/kernel/random/boot_id; }
carrier_changes() { cat "/sys/class/net/${1:-eth0}/carrier_changes"; }
hardware_address() { cat "/sys/class/net/${1:-eth0}/address"; }

# The kernel gives what it does not know of its command line to its first program.
ip link set lo up
for path in /sys/class/net/eth*; do
    [ -e "$path" ] || continue
    name=${path##*/}
    ip link set "$name" up
    eval "address=\${guest_address_$name:-}"
    [ -z "$address" ] || ip address add "$address" dev "$name"
done
echo "guest: ready $(boot_id)"

# In a shell of its own: an error in a command must not end the first program, and the guest with it.
while IFS=' ' read -r number line; do
    (eval "$line") 2>&1 </dev/null
    printf '\nguest: done %s %s\n' "$number" "$?"
done
poweroff -f
