"""Credentials: none inside."""

from __future__ import annotations

from functools import partial

from dayfly.prove.probe import Probe, Property, Severity

__all__ = ["PROBES"]

_one = partial(Probe, property=Property.CREDENTIAL, severity=Severity.CRITICAL)

_WORDS = ["TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "API_KEY", "APIKEY", "PRIVATE", "AWS_", "AZURE_", "GOOGLE_", "GITHUB_",
          "OPENAI", "ANTHROPIC", "DAYFLY_"]  # fmt: skip

_FILES = {
    "of clouds": ("clouds", ["~/.aws", "~/.azure", "~/.config/gcloud", "~/.oci", "/var/lib/cloud", "/root/.aws"]),
    "of shells and keys": ("keys", ["~/.ssh", "~/.gnupg", "~/.local/share/keyrings", "/etc/ssh/*_key", "/etc/krb5.keytab"]),
    "of containers": ("containers", ["~/.docker", "~/.kube", "/run/secrets", "/var/run/secrets", "/proc/1/root/run/secrets"]),
    "of package tools": ("packages", ["~/.npmrc", "~/.pypirc", "~/.config/pip/pip.conf", "~/.netrc", "~/.git-credentials", "/etc/pip.conf",
                                      "/etc/apt/auth.conf*"]),
    "in histories": ("histories", ["~/.bash_history", "~/.python_history", "~/.node_repl_history", "~/.psql_history"]),
    "of the system": ("system", ["/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/security/opasswd"]),
}  # fmt: skip

PROBES = (
    _one("credential.variables", "Have variables that look like credentials", attempt="leaks.variables", arguments={"words": _WORDS},
         source="RB, SBE"),
    _one("credential.environment", "Find a value of the host's environment in what can be read of any process", attempt="leaks.value_anywhere",
         arguments={"reversed_value": "{secret_reversed}", "files": ["environ", "cmdline"]}, seen_by=("a value set on the host",), source="INF88"),
    _one("credential.maps", "Find it in what is mapped and mounted", attempt="leaks.value_anywhere",
         arguments={"reversed_value": "{secret_reversed}", "files": ["maps", "mountinfo"]}, source="INF88"),
    *(_one(f"credential.files.{short}", f"Find credentials {title}", attempt="files.present", arguments={"patterns": patterns},
           source="CDK, SBE, SBD")
      for title, (short, patterns) in _FILES.items()),
    _one("credential.sockets", "Find an agent that holds keys", attempt="leaks.sockets",
         arguments={"patterns": ["/tmp/ssh-*/agent.*", "/run/user/*/gnupg/S.gpg-agent", "/run/user/*/bus", "/tmp/.X11-unix/*",
                                 "/run/user/*/wayland-*", "/tmp/vscode-ipc-*"],
                    "names": ["SSH_AUTH_SOCK", "GPG_AGENT_INFO", "DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY", "VSCODE_IPC_HOOK_CLI"]},
         source="CDK"),
    _one("credential.core", "Find memory in what a crash leaves", attempt="processes.core", severity=Severity.HIGH, source="RUNC25"),
)  # fmt: skip
