"""Files: nothing of the host's, and the image stays what it is."""

from __future__ import annotations

from functools import partial

from dayfly.prove.probe import Probe, Property, Severity

__all__ = ["PROBES"]

_one = partial(Probe, property=Property.FILESYSTEM, severity=Severity.CRITICAL)
_second = partial(Probe, property=Property.FILESYSTEM, severity=Severity.MEDIUM)

_LINKS = {
    "by its path": ("path", [""]),
    "through links to roots": ("links", ["/proc/self/root", "/proc/1/root", "/proc/thread-self/root"]),
    "through working directories": ("cwd", ["/proc/self/cwd", "/proc/1/cwd"]),
}

_FOLDERS = {
    "the root": ("root", ["/"]),
    "the system's settings": ("etc", ["/etc", "/var", "/root"]),
    "the system's programs": ("programs", ["/usr", "/usr/bin", "/usr/lib", "/bin", "/sbin", "/lib", "/opt"]),
    "Python's packages": (
        "packages",
        ["/usr/local/bin", "/usr/local/lib", "/usr/lib/python3", "/usr/lib/python3/dist-packages"],
    ),
    "the agent's directory": ("agent", ["/.dayfly", "/run/dayfly"]),
}

PROBES = (
    *(_one(f"filesystem.host.{short}", f"Read a file of this machine {title}", attempt="files.host_file",
           arguments={"path": "{canary_file}", "through": through}, seen_by=("what is in it",), source="SEB, RB")
      for title, (short, through) in _LINKS.items()),
    _one("filesystem.host.chroot", "Read it after changing the root twice", attempt="files.above_the_root", arguments={"path": "{canary_file}"},
         seen_by=("what is in it",), source="SEB, RB"),
    _second("filesystem.mounts", "Learn paths of this machine from the tables of mounts", attempt="files.told_paths",
            arguments={"words": "{host_paths}", "tables": ["/proc/self/mountinfo", "/proc/mounts", "/etc/mtab", "/proc/self/mountstats"]},
            source="CDK, DCE"),
    *(_second(f"filesystem.made.{short}", f"Make a file in {title}", attempt="files.made_in", arguments={"folders": folders}, source="RC, RB")
      for title, (short, folders) in _FOLDERS.items()),
    _second("filesystem.changed.system", "Change files of the system", attempt="files.changed",
            arguments={"paths": ["/etc/passwd", "/etc/hosts", "/etc/resolv.conf", "/etc/machine-id", "/etc/ld.so.cache"]}, source="RC, RB"),
    _second("filesystem.changed.programs", "Change programs that others run", attempt="files.changed",
            arguments={"paths": ["/usr/bin/python3", "/usr/bin/bash", "/bin/sh"]}, source="RC, RB"),
    _second("filesystem.changed.agent", "Change the agent", attempt="files.changed", arguments={"paths": ["/.dayfly/agent.pyz", "/.dayfly/boot.py"]},
            source="RG"),
    _second("filesystem.given", "Make a program that runs as root", attempt="files.given_away", arguments={"places": ["~", "/tmp", "/dev/shm"]},
            source="RB"),
)  # fmt: skip
