#!/bin/bash
# Try dayfly on another Debian, with its kernel, its systemd and cgroup v2, in an emulated machine: tests/hosts/vm.sh DIRECTORY [SUITE]
#
# As root, with qemu-system-x86, mmdebstrap and e2fsprogs installed; needs 8 GB in DIRECTORY, no KVM and no other tool.
# Takes half an hour: an emulated processor is 10 to 30 times slower. RUNSC=PATH puts another runsc beside the distribution's.
# What the guest says goes to DIRECTORY/guest.log, its console to DIRECTORY/console.log.
set -euo pipefail
work=$(mkdir -p "$1" && realpath "$1")
suite=${2:-trixie}
repository=$(realpath "$(dirname "$0")/../..")
root=$work/root
packages=systemd-sysv,dbus-user-session,libpam-systemd,linux-image-cloud-amd64,initramfs-tools,python3,python3-venv,make,git
packages+=,util-linux,mount,ca-certificates,procps,iproute2,passwd,udev,kmod

# With this host's kernel and network. Not chroot: user namespaces cannot be made in one.
enter() {
  unshare --mount bash -euc '
    mount --make-rprivate /
    mount --bind "$0" "$0"
    for part in proc sys dev; do mount --rbind "/$part" "$0/$part"; done
    mount -t tmpfs -o mode=755 tmpfs "$0/run"
    mkdir -p "$0/outside"; cd "$0"; pivot_root . outside; cd /; umount -l /outside
    exec env -i HOME=/root LANG=C.UTF-8 TERM=dumb PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"' \
    "$root" "$@"
}

if [ ! -e "$work/made" ]; then
  mmdebstrap --mode=root --variant=minbase --include=$packages "$suite" "$root"
  cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
  cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"  # a network that looks into TLS has its own authority there
  cp /etc/pip.conf "$root/etc/" 2>/dev/null || true
  echo '/dev/vda / ext4 rw,noatime 0 1' >"$root/etc/fstab"
  enter useradd --create-home --shell /bin/bash dev
  touch "$work/made"
fi

for place in "$root/opt/dayfly" "$root/home/dev/dayfly"; do
  mkdir -p "$place"
  git -C "$repository" ls-files -z --cached --others --exclude-standard |
    tar --create --directory "$repository" --null --files-from - --ignore-failed-read | tar --extract --directory "$place"
done
enter chown -R dev: /home/dev

# A fresh machine's first and second command, as root and as an ordinary user.
enter bash -c 'cd /opt/dayfly && make run && .venv/bin/dayfly setup --image python'
enter bash -c 'cd /opt/dayfly && .venv/bin/python -m pip install --quiet "pip>=25.1" && .venv/bin/python -m pip install --quiet --group test'
enter su - dev -c 'cd dayfly && make run && .venv/bin/dayfly setup --image python'
enter bash -c 'cd /opt/dayfly && .venv/bin/python -c "
from pathlib import Path
from dayfly.images import build, load_recipe
build(load_recipe(Path(\"tests/recipes/tiny.toml\")))"'

[ -z "${RUNSC:-}" ] || install -m 755 "$RUNSC" "$root/opt/runsc"
printf '%s\n' '[Unit]' 'After=multi-user.target' '[Service]' 'Type=oneshot' 'TimeoutStartSec=infinity' \
  'ExecStart=/bin/bash /opt/dayfly/tests/hosts/guest.sh' '[Install]' 'WantedBy=multi-user.target' \
  >"$root/etc/systemd/system/guest.service"
systemctl --root="$root" --quiet enable guest.service

rm -f "$work/disk"
truncate --size=12G "$work/disk"
mke2fs -q -t ext4 -d "$root" "$work/disk"
timeout 5400 qemu-system-x86_64 -machine q35,accel=tcg -cpu max -smp 2 -m 4096 -nographic -nodefaults -no-reboot \
  -kernel "$root"/boot/vmlinuz-* -initrd "$root"/boot/initrd.img-* -append 'root=/dev/vda rw console=ttyS0 mitigations=off' \
  -drive "file=$work/disk,if=virtio,format=raw,cache=unsafe" \
  -serial "file:$work/console.log" -serial "file:$work/guest.log"
cat "$work/guest.log"
grep --quiet "^##### end" "$work/guest.log" || { echo "the guest ended before its questions did" >&2; exit 1; }
