#!/bin/bash
# In a guest of vm.sh, started by its systemd: everything that is asked of dayfly there; then the guest powers off.
exec >/dev/ttyS1 2>&1 </dev/null
export HOME=/root LANG=C.UTF-8 TERM=dumb PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
cd /opt/dayfly
python=/opt/dayfly/.venv/bin/python
room="$python $PWD/tests/hosts/room.py"
as_dev="runuser -u dev -- env HOME=/home/dev XDG_RUNTIME_DIR=/run/user/1000 DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/1000/bus"
newer=/opt/runsc  # a current runsc, where the tester has put one
say() { echo; echo "##### $* (up $(cut -d. -f1 /proc/uptime) s)"; }
tests() { "$@" $python -m pytest -v --timeout 300 tests/boundaries/test_cgroups.py; }

say the host
uname -r; systemctl --version | head -1; grep cgroup /proc/mounts; cat /proc/self/cgroup
cat /sys/fs/cgroup/cgroup.controllers /sys/fs/cgroup/cgroup.subtree_control
.venv/bin/dayfly doctor

say root, while systemd changes its slices; $room root-hazard hazard  # before a user manager needs the controller
say root, in a service; $room root cpu
say root, strict; $room root-strict strict
[ ! -x $newer ] || { say root, strict, a current runsc; DAYFLY_RUNSC=$newer $room root-strict-newer strict cpu; }
say root, in a delegated service; systemd-run --pipe --wait -q -p Delegate=yes -p DelegateSubgroup=main $room root-delegated

say floods and the contract; $python -m pytest -v --timeout 300 tests/boundaries/test_gvisor_limits.py tests/boundaries/test_contract.py \
  -k "((memory_flood or cpu_time) and found and not empty) or read_back or (gvisor_boundary and (kill_leaves or sweep or limit_is_reported or killed_from_outside))"

loginctl enable-linger dev; systemctl start user@1000.service
say dev, su; runuser -l dev -c "$room dev-su"
say dev, delegated scope; $as_dev systemd-run --user --scope -q -p Delegate=yes $room dev-scope cpu
say dev, delegated service; $as_dev systemd-run --user --pipe --wait -q -p Delegate=yes -p DelegateSubgroup=main $room dev-service

say tests as root; tests env
say tests as dev, delegated; tests $as_dev systemd-run --user --scope -q -p Delegate=yes

say end
sync
systemctl poweroff --no-block
