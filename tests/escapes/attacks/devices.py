"""Open devices that lead to hardware, to other kernels or around the sandbox."""

import os

from verdict import CONTROL, tell

NAMES = """mem kmem port kvm sda vda xvda nvme0n1 dm-0 loop0 loop-control fuse net/tun vhost-net vhost-vsock vsock
nvidia0 nvidiactl dri/card0 userfaultfd mapper/control kmsg console""".split()
if CONTROL:
    NAMES.append("null")
found = []
for name in NAMES:
    try:
        os.close(os.open("/dev/" + name, os.O_RDONLY | os.O_NONBLOCK))
        found.append(name)
    except OSError:
        pass
made = "/tmp/device"
try:
    os.mknod(made, 0o60600, os.makedev(254, 0))
    os.close(os.open(made, os.O_RDONLY | os.O_NONBLOCK))
    found.append("mknod")
except OSError:
    pass
tell(found, len(NAMES) + 1)
