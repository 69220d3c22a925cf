#!/usr/bin/env bash
# Installs what the tests on MySQL (libraries), on a Galera cluster (the provider, rsync) or of packages (mmdebstrap) need,
# when we may. Usage: install_servers.sh mysql|galera|debian. MySQL itself is fetched by tests/mysql_server.py.
set -euo pipefail

packages=()
case "$1" in
  mysql)
    found=$(ldconfig -p 2>/dev/null || /sbin/ldconfig -p)
    grep -q 'libaio\.so\.1 ' <<<"$found" || packages+=(libaio1)
    grep -q 'libnuma\.so\.1 ' <<<"$found" || packages+=(libnuma1)
    ;;
  galera)
    [ -e /usr/lib/galera/libgalera_smm.so ] || packages+=(galera-4)
    command -v rsync >/dev/null || packages+=(rsync)
    command -v lsof >/dev/null || packages+=(lsof)
    ;;
  debian)
    command -v mmdebstrap >/dev/null || packages+=(mmdebstrap)
    ;;
esac
[ ${#packages[@]} -eq 0 ] && exit 0

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
  echo "Tests on $1 will be skipped. To run them, install: ${packages[*]}" >&2
  exit 0 # the tests decide: a skip at a desk, a failure when CI=true
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq || true
for package in "${packages[@]}"; do # one by one: Debian 13 calls libaio1 otherwise
  apt-get install -y -qq --no-install-recommends "$package" >/dev/null || echo "$package could not be installed" >&2
done
