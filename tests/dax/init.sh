#!/bin/sh
# The first process of the guest: it loads the modules that the host named, brings the network up, and then runs what
# arrives on the second serial port, line by line. Each line's output goes back, and after it a line "= STATUS". All that
# a test does in a guest is said by the test; only what takes several steps is a function here.
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
for module in $(cat /modules/order); do insmod "/modules/$module"; done
ip link set lo up
ip link set eth0 up
ip addr add 10.0.2.15/24 dev eth0
ip route add default via 10.0.2.2

# The kernel finds devices at its leisure.
appears() {
    tries=0
    until [ -e "$1" ] || [ -e "${2:-/none}" ]; do
        [ $tries -lt 200 ] || { echo "$1 does not appear"; return 1; }
        tries=$((tries + 1))
        sleep 0.05
    done
}

# What `ndctl create-namespace --map mem --mode fsdax` (pfn nd_pmem) or `devdax` (dax dax_pmem) does, by sysfs. The kernel
# keeps the answer at the start of the medium, so that one claim lasts.
claim() {
    nd=/sys/bus/nd/devices
    seed=$(cat $nd/region0/"$1"_seed) &&
        echo namespace0.0 >$nd/namespace0.0/driver/unbind &&
        echo ram >$nd/"$seed"/mode &&
        echo 2097152 >$nd/"$seed"/align &&
        cat /proc/sys/kernel/random/uuid >$nd/"$seed"/uuid &&
        echo namespace0.0 >$nd/"$seed"/namespace &&
        echo "$seed" >/sys/bus/nd/drivers/"$2"/bind
}

# A block device with DAX; a raw namespace has no struct pages, hence none.
fsdax() {
    appears /dev/pmem0 || return 1
    [ "$(cat /sys/block/pmem0/queue/dax)" = 1 ] || claim pfn nd_pmem || return 1
    appears /dev/pmem0
}

devdax() {
    appears /dev/dax0.0 /dev/pmem0 || return 1
    [ -e /dev/dax0.0 ] || claim dax dax_pmem || return 1
    appears /dev/dax0.0
}

stty -F /dev/ttyS1 raw -echo
exec 3<>/dev/ttyS1
echo "= 0" >&3
while IFS= read -r line <&3; do
    eval "$line" >&3 2>&1 3<&-
    printf '\n= %s\n' $? >&3
done
