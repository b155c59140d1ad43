"""Find credentials in the places where they usually lie."""

import glob
import os

from verdict import CONTROL, tell

PLACES = """.aws .ssh .netrc .docker .kube .config/gcloud .npmrc .pypirc .config/pip/pip.conf .git-credentials .gnupg
.bash_history .python_history .local/share/keyrings""".split()
SYSTEM = """/run/secrets /var/run/secrets /etc/ssh/*_key /etc/pip.conf /etc/krb5.keytab /etc/apt/auth.conf*
/var/lib/cloud /root/.ssh /root/.aws /proc/1/root/run/secrets /etc/shadow /etc/gshadow /etc/sudoers""".split()
if CONTROL:
    os.makedirs(os.path.expanduser("~/.aws"), exist_ok=True)
found, tried = [], 0
for home in {os.path.expanduser("~"), "/root", *glob.glob("/home/*")}:
    for place in PLACES:
        tried += 1
        if os.path.exists(os.path.join(home, place)):
            found.append(os.path.join(home, place))
for pattern in SYSTEM:
    tried += 1
    for path in glob.glob(pattern):
        if os.access(path, os.R_OK) and not (os.path.isdir(path) and not os.listdir(path)):
            found.append(path)
tell(found, tried)
