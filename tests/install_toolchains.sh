#!/usr/bin/env bash
# Sees to it that the tests find the toolchains of the client programs, and the tools that check packages: installs Debian's packages when we may, and
# mysqlclient, which is built from source, for the Python that is named. Usage: install_toolchains.sh [PYTHON]
# Whatever is missing afterwards is skipped at a desk and fails when CI=true; tests/toolchains.py decides.
set -euo pipefail

python=${1:-}
has_headers='import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))'

packages=()
command -v javac >/dev/null || packages+=(default-jdk-headless)
command -v go >/dev/null || packages+=(golang-go)
command -v node >/dev/null || packages+=(nodejs)
command -v npm >/dev/null || packages+=(npm)
command -v php >/dev/null || packages+=(php-cli)
php -m 2>/dev/null | grep -qx mysqli || packages+=(php-mysql)
ls /usr/lib/*/odbc/libmaodbc.so >/dev/null 2>&1 || packages+=(odbc-mariadb)
ls /usr/lib/*/libodbc.so.2 >/dev/null 2>&1 || packages+=(libodbc2) # pyodbc loads it; nothing else asks for it
command -v groff >/dev/null || packages+=(groff-base)
command -v systemd-analyze >/dev/null || packages+=(systemd)
command -v ssh-keygen >/dev/null || packages+=(openssh-client)
command -v gpg >/dev/null || packages+=(gnupg)
if [ -n "$python" ] && ! "$python" -c 'import MySQLdb' 2>/dev/null; then
  command -v gcc >/dev/null || packages+=(gcc libc6-dev)
  command -v pkg-config >/dev/null || packages+=(pkg-config)
  command -v mariadb_config >/dev/null || packages+=(libmariadb-dev)
  "$python" -c "$has_headers" || packages+=(python3-dev)
fi

if [ ${#packages[@]} -ne 0 ]; then
  if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "Tests of some clients will be skipped. To run them, install: ${packages[*]}" >&2
  else
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq || true
    for package in "${packages[@]}"; do # one by one: what cannot be had does not keep the others away
      apt-get install -y -qq --no-install-recommends "$package" >/dev/null || echo "$package could not be installed" >&2
    done
  fi
fi

if [ -n "$python" ] && ! "$python" -c 'import MySQLdb' 2>/dev/null; then
  "$python" -m pip install --quiet --disable-pip-version-check 'mysqlclient>=2.2,<3' >/dev/null 2>&1 ||
    echo "mysqlclient could not be built: its tests will be skipped" >&2
fi
