"""Find a secret of the host process in any environment, command line or listing that is visible."""

import os

from verdict import tell

SECRET = os.environ["SECRET_SHAPE"][::-1]  # reversed, so that this program's own environment does not hold it
found = [f"environment: {name}" for name, value in os.environ.items() if SECRET in value or SECRET in name]
tried = len(os.environ)
for process in os.listdir("/proc"):
    if process.isdigit():
        for name in ("environ", "cmdline", "maps", "mountinfo"):
            tried += 1
            try:
                with open(f"/proc/{process}/{name}", "rb") as file:
                    if SECRET.encode() in file.read():
                        found.append(f"/proc/{process}/{name}")
            except OSError:
                pass
suspicious = (
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "CREDENTIAL",
    "AWS_",
    "AZURE_",
    "GOOGLE_",
    "IDENTITY_ENDPOINT",
    "KUBERNETES_",
    "SSH_AUTH_SOCK",
    "DBUS_",
    "DISPLAY",
)
found += [name for name in os.environ if any(word in name.upper() for word in suspicious) and name != "SECRET_SHAPE"]
tell(found, tried)
