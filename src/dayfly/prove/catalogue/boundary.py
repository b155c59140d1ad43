"""The boundary: a kernel of its own, and no door to the host's."""

from __future__ import annotations

from functools import partial

from dayfly.prove.probe import Probe, Property, Severity

__all__ = ["PROBES"]

_one = partial(Probe, property=Property.BOUNDARY, severity=Severity.CRITICAL)
_second = partial(Probe, property=Property.BOUNDARY, severity=Severity.MEDIUM)
_tells = partial(Probe, property=Property.BOUNDARY, severity=Severity.HIGH)

_CALLS = {
    "load a module into the kernel": ("modules", {"init_module": [175, 1, 1, 1], "finit_module": [313, -1, 1, 0]}),
    "start another kernel": ("kexec", {"kexec_load": [246, 1, 1, 1, 1], "kexec_file_load": [320, -1, -1, 0, 0, 99]}),
    "load a program into the kernel (bpf)": ("bpf", {"bpf": [321, 0, 0, 0]}),
    "watch the machine's performance counters": ("perf", {"perf_event_open": [298, 1, 0, -1, -1, 0]}),
    "restart the machine": ("reboot", {"reboot": [169, 1, 1, 1]}),
    "change swap or accounting": ("swap", {"swapon": [167, 1], "swapoff": [168, 1], "acct": [163, 1]}),
    "open a file by its handle": ("handles", {"open_by_handle_at": [304, -1, 1, 0]}),
    "change the root of all": ("pivot", {"pivot_root": [155, 1, 1]}),
    "set the time of day": ("time", {"settimeofday": [164, 0, 0]}),
    "have rings of calls (io_uring)": ("uring", {"io_uring_setup": [425, 1, 1]}),
    "answer another process's page faults": ("userfaultfd", {"userfaultfd": [323, 1 << 20]}),
    "use the kernel's keyrings": ("keyring", {"add_key": [248, 1, 1, 1, 1, -3], "request_key": [249, 1, 1, 1, 0]}),
    "use I/O ports": ("ports", {"iopl": [172, 3], "ioperm": [173, 1, 1, 1]}),
}
"""Arguments that no kernel can follow (1 is no address), behind its question whether the caller may at all."""

_IDENTITIES = ("hostname", "machine id", "boot id", "kernel", "memory", "product uuid", "command line")

_DEVICES = {
    "memory": ("mem", "kmem", "port"),
    "disks": ("sda", "vda", "xvda", "nvme0n1", "dm-0", "loop0", "loop-control", "mapper/control"),
    "virtual machines": ("kvm", "vhost-net", "vhost-vsock", "vsock"),
    "networks and file systems": ("net/tun", "fuse"),
    "graphics and accelerators": ("nvidia0", "nvidiactl", "nvidia-uvm", "dri/card0", "dri/renderD128", "kfd"),
    "the console and the log": ("console", "kmsg", "userfaultfd"),
}

_DRIVERS = [
    "/usr/lib/*/libcuda.so*",
    "/usr/lib/*/libnvidia-*",
    "/usr/local/nvidia",
    "/usr/local/cuda*",
    "/opt/rocm*",
    "/sys/module/nvidia*",
]

_NEVER = {"DAC_OVERRIDE": 1, "DAC_READ_SEARCH": 2, "NET_ADMIN": 12, "NET_RAW": 13, "SYS_MODULE": 16, "SYS_RAWIO": 17, "SYS_CHROOT": 18,
          "SYS_PTRACE": 19, "SYS_ADMIN": 21, "SYS_BOOT": 22, "SYS_TIME": 25, "MKNOD": 27, "SYSLOG": 34, "PERFMON": 38, "BPF": 39}  # fmt: skip
"""Capabilities that lead outside, or into others, by their bits (linux/capability.h)."""

_SETTINGS = {
    "what is run at a crash": ("core-pattern", ("/proc/sys/kernel/core_pattern",)),
    "what loads modules": ("modprobe", ("/proc/sys/kernel/modprobe", "/sys/kernel/uevent_helper")),
    "what runs foreign programs": ("binfmt", ("/proc/sys/fs/binfmt_misc/register",)),
    "the magic keys": ("sysrq", ("/proc/sysrq-trigger",)),
    "memory's settings": ("vm", ("/proc/sys/vm/panic_on_oom", "/proc/1/oom_score_adj")),
    "cgroups": (
        "cgroups",
        (
            "/sys/fs/cgroup/release_agent",
            "/sys/fs/cgroup/cgroup.procs",
            "/sys/fs/cgroup/memory/release_agent",
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        ),
    ),
}

_MASKED = {
    "the kernel's memory": ("kcore", ("/proc/kcore",)),
    "the kernel's log": ("kmsg", ("/proc/kmsg", "/dev/kmsg")),
    "timers and schedulers": ("timers", ("/proc/timer_list", "/proc/sched_debug", "/proc/latency_stats")),
    "firmware": (
        "firmware",
        ("/sys/firmware/acpi/tables/DSDT", "/sys/firmware/efi/systab", "/sys/firmware/dmi/tables/DMI"),
    ),
    "debugging": ("debug", ("/sys/kernel/debug/sched/features", "/sys/kernel/tracing/trace")),
    "keys": ("keys", ("/proc/keys", "/proc/key-users")),
    "modules": ("modules", ("/proc/modules",)),
}

_MOUNTS = {
    "as it is": ("plain", {"flags": 0, "own": False}),
    "with a user namespace of its own": ("user", {"flags": 0x10000000, "own": False}),
    "with user and mount namespaces of its own": ("both", {"flags": 0x10020000, "own": True}),
}

PROBES = (
    *(_one(f"boundary.call.{short}", title.capitalize(), attempt="kernel.calls", arguments={"numbers": numbers}, source="SEB, RB")
      for title, (short, numbers) in _CALLS.items()),
    *(_one(f"boundary.setting.{short}", f"Write to {title}", attempt="kernel.writable", arguments={"paths": paths}, source="AIG, RUNC25")
      for title, (short, paths) in _SETTINGS.items()),
    *(_one(f"boundary.device.{title.split()[-1]}", f"Open devices: {title}", attempt="kernel.devices", arguments={"names": names},
           source="AIG, DCE, SEB")
      for title, names in _DEVICES.items()),
    _one("boundary.device.drivers", "Find drivers of accelerators", attempt="files.present", arguments={"patterns": _DRIVERS}, source="NVC, GVR"),
    _one("boundary.device.made", "Make a device and open it", attempt="kernel.node", arguments={"kind": 0o60000, "major": 254, "minor": 0}, source="AIG, CDK"),
    *(_one(f"boundary.mount.{short}", f"Mount a file system, {title}", attempt="kernel.mounts", arguments=arguments, source="RB, CDK")
      for title, (short, arguments) in _MOUNTS.items()),
    *(_tells(f"boundary.masked.{short}", f"Read {title}", attempt="kernel.readable", arguments={"paths": paths}, source="OCI, RUNC25")
      for title, (short, paths) in _MASKED.items()),
    *(_tells(f"boundary.identity.{name.replace(' ', '-')}", f"Recognise this machine by its {name}", attempt="kernel.identity",
             arguments={"field": name, "host": f"{{host {name}}}"}, seen_by=("this machine's own",), source="RB, BETA9, GOV")
      for name in _IDENTITIES),
    _tells("boundary.process.named", "Find a process of this machine", attempt="processes.named", arguments={"nonce": "{nonce}"},
           seen_by=("a process with a mark",), source="AIG, SEB"),
    _one("boundary.process.signal", "Signal a process of this machine", attempt="processes.signalled", arguments={"pid": "{host_pid}"},
         source="AIG"),
    _tells("boundary.process.programs", "See what a host runs", attempt="processes.programs",
           arguments={"words": ["systemd", "dockerd", "containerd", "runsc", "firecracker", "sshd", "kubelet"]}, source="AIG, SEB"),
    _second("boundary.agent.environment", "Find something worth having in the environment of pid 1", attempt="processes.told_by",
            arguments={"target": 1, "harmless": ["PATH", "LANG", "HOME", "MALLOC_ARENA_MAX"]}, source="INF88, BKN451, GVC"),
    _second("boundary.agent.memory", "Open the memory of pid 1", attempt="processes.memory", arguments={"target": 1}, source="CDK, INF88"),
    _second("boundary.agent.read", "Read the memory of pid 1 by a call", attempt="processes.read_by_call", arguments={"target": 1},
            source="CDK"),
    _second("boundary.agent.descriptors", "Use the descriptors of pid 1", attempt="processes.descriptors", arguments={"target": 1},
            source="DX12968"),
    _second("boundary.agent.root", "Walk through the root of pid 1", attempt="processes.root", arguments={"target": 1}, source="SEB"),
    _second("boundary.agent.trace", "Trace pid 1", attempt="processes.traced", arguments={"target": 1}, source="CDK"),
    _second("boundary.agent.stop", "Stop pid 1", attempt="processes.stopped", arguments={"target": 1, "number": 19}, source="RG"),
    _one("boundary.descriptors", "Use descriptors that were left open", attempt="processes.left_open", source="AIG, RUNC24"),
    _second("boundary.superuser", "Be root inside", attempt="privileges.superuser", source="SEB, BOX"),
    _second("boundary.capabilities", "Have capabilities", attempt="privileges.capabilities",
            arguments={"which": ["CapEff", "CapPrm", "CapInh", "CapAmb"]}, source="SEB, CDK, BOX"),
    _second("boundary.capabilities.bounding", "Be able to come to capabilities that lead outside", attempt="privileges.obtainable",
            arguments={"never": _NEVER}, source="SEB, CDK, BOX"),
    _second("boundary.identity-change", "Become another user", attempt="privileges.identity_changed", source="RB"),
    _second("boundary.setuid", "Find programs that run as another user", attempt="privileges.marked_files", arguments={"tops": ["/usr/bin", "/usr/sbin", "/bin", "/sbin"]}, source="RB, DCE"),
    _second("boundary.setuid.everywhere", "Find such programs anywhere", attempt="privileges.marked_files",
            arguments={"tops": ["/usr", "/opt", "/var", "/home"]}, source="RB, DCE", quick=False, seconds=60),
    _second("boundary.sudo", "Have a command run as root", attempt="privileges.sudo", source="DCE"),
    _one("boundary.socket.host", "Connect to a Unix socket of this machine", attempt="network.unix",
         arguments={"names": ["{canary_socket}", "@{nonce}"]}, seen_by=("two Unix servers",), source="CDK, OSB750"),
    _one("boundary.socket.known", "Connect to sockets that control machines", attempt="network.unix",
         arguments={"names": ["/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock", "/run/crio/crio.sock",
                              "/run/podman/podman.sock", "/run/firecracker.socket", "/run/dbus/system_bus_socket", "@/containerd-shim",
                              "/run/systemd/private"]}, source="SEB, DCE, OSB750"),
    _one("boundary.vsock", "Have sockets to the machine below (vsock)", attempt="network.families",
         arguments={"kinds": {"stream": [40, 1, 0], "datagram": [40, 2, 0], "packet": [40, 5, 0]}}, source="MVM1629, BOX"),
    _second("boundary.families", "Have sockets of unusual families", attempt="network.families",
            arguments={"kinds": {"packet": [17, 3, 3], "raw": [2, 3, 255], "raw ICMP": [2, 3, 1], "raw IPv6": [10, 3, 58],
                                 "crypto": [38, 5, 0], "vsock": [40, 1, 0], "TIPC": [30, 5, 0], "bluetooth": [31, 5, 0],
                                 "netfilter": [16, 3, 12], "XFRM": [16, 3, 6], "SCTP": [2, 1, 132], "DCCP": [2, 6, 33]}},
            source="SEB, GVC, MSB585"),
    _one("boundary.families.namespace", "Have raw sockets by a user namespace, where there is a device", attempt="network.raw_with_namespaces",
         arguments={"kinds": {"packet": [17, 3, 3], "raw ICMP": [2, 3, 1]}}, source="measured: gVisor gives them in its own network stack"),
)  # fmt: skip
