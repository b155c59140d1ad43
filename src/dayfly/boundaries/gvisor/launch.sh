#!/bin/sh
# Runs in the private mount namespace of one cell, as the last step before runsc.
#
#   launch.sh [--join ENTRANCE]... [--bind SOURCE TARGET OPTIONS]... [--overlay LOWERDIRS TARGET]... -- COMMAND...
#
# Joins cgroups (so that everything that follows is counted from its first moment), makes mounts that vanish with this
# namespace, and becomes COMMAND.
set -eu

# Sets $bound to the CPUs that this process may use.
look() {
    while read -r key value; do
        case $key in
        Cpus_allowed_list:) bound=$value ;;
        esac
    done </proc/self/status
}

look
wanted=$bound
while [ "$1" != -- ]; do
    case $1 in
    --join)
        echo 0 >"$2"
        shift 2
        ;;
    --bind)
        mount --no-mtab -o "bind,$4" -- "$2" "$3"
        shift 4
        ;;
    --overlay)
        mount --no-mtab -t overlay -o "ro,lowerdir=$2" overlay "$3"
        shift 3
        ;;
    *)
        echo "launch.sh: unknown option $1" >&2
        exit 64
        ;;
    esac
done
shift

# Joining a cgroup that has a cpuset gives a process all the CPUs of that back (Linux before 6.2).
look
if [ "$bound" != "$wanted" ]; then
    exec taskset --cpu-list "$wanted" "$@"
fi
exec "$@"
