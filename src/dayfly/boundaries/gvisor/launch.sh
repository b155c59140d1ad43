#!/bin/sh
# Runs in the private mount namespace of one cell, as the last step before runsc.
#
#   launch.sh [--bound] [--join ENTRANCE]... [--mount TABLE] -- COMMAND...
#
# Joins cgroups (so that everything that follows is counted from its first moment), makes the mounts of TABLE (a file like
# /etc/fstab), which vanish with this namespace, and becomes COMMAND. With --bound, joining may not change the CPUs that
# it is bound to.
set -eu

# Sets $bound to the CPUs that this process may use.
look() {
    while read -r key value; do
        case $key in
        Cpus_allowed_list:) bound=$value ;;
        esac
    done </proc/self/status
}

wanted=
while [ "$1" != -- ]; do
    case $1 in
    --bound)
        look
        wanted=$bound
        shift
        ;;
    --join)
        echo 0 >"$2"
        shift 2
        ;;
    --mount)
        mount --no-mtab --all --fstab "$2" # one program for all: each takes 1.3 ms
        shift 2
        ;;
    *)
        echo "launch.sh: unknown option $1" >&2
        exit 64
        ;;
    esac
done
shift

# Joining a cgroup that has a cpuset gives a process all the CPUs of that back (Linux before 6.2).
if [ -n "$wanted" ]; then
    look
    if [ "$bound" != "$wanted" ]; then
        exec taskset --cpu-list "$wanted" "$@"
    fi
fi
exec "$@"
