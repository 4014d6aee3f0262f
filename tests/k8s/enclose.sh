#!/bin/bash
# Runs a command where a Kubernetes node can live, and leaves nothing of it on the machine, however it ends.
#
#   enclose.sh COMMAND…      as root, on a kernel with cgroup v1 (a kubelet of 1.20 knows no other)
#
# A kubelet mounts, configures interfaces, sets parameters of the kernel, makes cgroups, and starts containers whose parents
# go away. Taking all that back afterwards works until something is killed in the middle. So most of it happens where the
# kernel takes it back by itself:
#
#   processes    a PID namespace: when its first process ends, and that one dies with this script, the kernel kills the rest
#   interfaces   a network namespace: loopback, and a veth pair whose one end is the node's address, for pods to reach
#   mounts       a mount namespace
#   files        /run is a tmpfs there, /var a layer over the machine's: what containerd, CNI and the kubelet write is memory
#   parameters   files of ours lie over those of /proc/sys that a kubelet writes; the machine's are never touched
#   cgroups      one folder in each hierarchy, told to the command as K8S_TEST_CGROUP. It is removed at the end; what a
#                run left that was itself killed, by the next one
#
# With unshare, not "ip netns exec": that mounts a fresh /sys, in which the kubelet does not find the cgroups.
set -euo pipefail
NODE_ADDRESS=10.99.9.1
SCRATCH=/run/everwhen-k8s
HIERARCHIES=/sys/fs/cgroup
PREFIX=everwhen-k8s-
PARAMETERS="vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys kernel/keys/root_maxbytes"

inside() {
  ip link set lo up
  ip link add node0 type veth peer name node1
  ip addr add $NODE_ADDRESS/30 dev node0
  ip link set node0 up
  ip link set node1 up
  echo 1 > /proc/sys/net/ipv4/ip_forward # of this namespace

  mount -t tmpfs -o mode=755 tmpfs /run
  mkdir -p $SCRATCH/{upper,work,parameters}
  mount -t overlay -o lowerdir=/var,upperdir=$SCRATCH/upper,workdir=$SCRATCH/work overlay /var
  for each in $PARAMETERS; do
    ours=$SCRATCH/parameters/${each//\//.}
    cat /proc/sys/"$each" > "$ours"
    mount --bind "$ours" /proc/sys/"$each"
  done
  export K8S_TEST_SCRATCH=$SCRATCH K8S_TEST_ADDRESS=$NODE_ADDRESS
  "$@" || return $? # not exec: somebody has to wait for containers whose parents have gone
}

make_cgroups() {
  for hierarchy in $HIERARCHIES/*/; do
    mkdir "$hierarchy$1"
    [ ! -e "$hierarchy/cpuset.cpus" ] || for each in cpus mems; do cat "$hierarchy/cpuset.$each" > "$hierarchy$1/cpuset.$each"; done
  done
}

remove_cgroups() {
  for folder in $HIERARCHIES/*/"$1"; do
    [ ! -d "$folder" ] || find "$folder" -depth -type d -exec rmdir {} + 2> /dev/null || true
  done
}

remove_leftovers() {
  for folder in $HIERARCHIES/memory/$PREFIX*; do
    name=$(basename "$folder")
    kill -0 "${name#"$PREFIX"}" 2> /dev/null || remove_cgroups "$name"
  done
}

if [ "${1:-}" = --inside ]; then
  inside "${@:2}"
  exit
fi
[ "$(id -u)" = 0 ] || { echo "enclose.sh: only root can start a Kubernetes node" >&2; exit 1; }
[ -e $HIERARCHIES/memory/memory.limit_in_bytes ] || {
  echo "enclose.sh: a kubelet of 1.20 needs cgroup v1 (boot with systemd.unified_cgroup_hierarchy=0)" >&2
  exit 1
}
remove_leftovers
export K8S_TEST_CGROUP=$PREFIX$$
trap 'remove_cgroups "$K8S_TEST_CGROUP"' EXIT
make_cgroups "$K8S_TEST_CGROUP"
code=0
# This shell may be killed: then unshare is, and with it what it has started.
setpriv --pdeathsig KILL unshare --net --mount --pid --fork --kill-child --mount-proc "$0" --inside "$@" || code=$?
exit $code
