#!/usr/bin/env bash
# Sees to it that the tests find a MariaDB server and client: installs Debian's packages when we may.
set -euo pipefail

if command -v mariadbd >/dev/null && command -v mariadb >/dev/null && command -v mariadb-install-db >/dev/null; then
  exit 0
fi
if [ -x /usr/sbin/mariadbd ] && command -v mariadb >/dev/null; then
  exit 0 # /usr/sbin is not on every user's PATH; the tests look there too
fi
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
  echo "MariaDB is missing: tests that need it will be skipped. Install mariadb-server and mariadb-client." >&2
  exit 0 # tests/conftest.py decides: a skip at a desk, a failure when CI=true
fi

# The tests start a private server themselves; the package shall not start one of its own.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod +x "$policy"
  trap 'rm -f "$policy"' EXIT
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends mariadb-server mariadb-client >/dev/null
