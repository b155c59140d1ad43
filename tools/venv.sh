#!/bin/bash
# Make the virtual environment that `make` uses, with a Python that is new enough: tools/venv.sh DIRECTORY
set -euo pipefail
venv=$1

fits() { [ -x "$1" ] && "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

if fits "$venv/bin/python"; then exit 0; fi

python=
for candidate in /usr/bin/python3 "$(command -v python3 || true)"; do
  if [ -n "$candidate" ] && fits "$candidate"; then python=$candidate; break; fi
done
if [ -z "$python" ]; then
  echo "dayfly needs Python 3.11 or newer: apt-get install python3 python3-venv (Debian 12 or newer, Ubuntu 24.04 or newer)" >&2
  exit 1
fi

if ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "installing python3-venv"
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends python3-venv >/dev/null
  else
    echo "python3-venv is missing: sudo apt-get install python3-venv (nothing of dayfly works without it)" >&2
    exit 1
  fi
fi
"$python" -m venv "$venv"
