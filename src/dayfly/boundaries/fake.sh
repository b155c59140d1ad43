#!/bin/sh
# Runs in a private mount namespace, as root, before the fake boundary's agent:
#
#   fake.sh SCRATCH COMMAND...
#
# Makes every file system read-only but for SCRATCH (a path without symbolic links), those in memory and the kernel's own,
# and becomes COMMAND. No wall: root may undo it. But what a test gets
# wrong then fails, instead of changing the machine.
set -eu

scratch=$1
shift
mount --no-mtab --bind -- "$scratch" "$scratch"
while read -r _ target kind _; do
    case $kind in
    proc | sysfs | cgroup | cgroup2 | tmpfs | devtmpfs | devpts | mqueue | bpf | debugfs | tracefs | securityfs | pstore | \
        configfs | fusectl | hugetlbfs | binfmt_misc | autofs | rpc_pipefs | nsfs) continue ;;
    esac
    target=$(printf '%b' "$(printf '%s' "$target" | sed 's/\\\([0-7]\{3\}\)/\\0\1/g')")
    [ "$target" = "$scratch" ] || mount --no-mtab -o remount,bind,ro -- "$target"
done </proc/self/mounts
cd "$scratch"
exec "$@"
