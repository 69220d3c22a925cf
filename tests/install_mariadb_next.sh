#!/usr/bin/env bash
# Fetches the MariaDB of a newer Debian (its packages, and the libraries that they need) and unpacks it into a folder,
# without touching this system: apt works in a root of its own, from the mirror that this system uses.
# Usage: install_mariadb_next.sh FOLDER [SUITE]. The suite trixie has MariaDB 11.8.
set -euo pipefail

folder=$1 suite=${2:-trixie}
command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || {
  echo "there is no apt here to fetch the packages with" >&2
  exit 1
}
sources=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources 2>/dev/null || true)
mirror=$(grep -oE '^(URIs: |deb (\[[^]]*\] )?)[a-z]+://[^ ]+' <<<"$sources" | grep -v security | grep -oE '[a-z]+://[^ ]+' | head -n 1 || true)
apt=$(mktemp -d)
trap 'rm -rf "$apt"' EXIT
mkdir -p "$apt"/etc/apt/{apt.conf.d,preferences.d} "$apt"/var/lib/apt/lists/partial "$apt"/var/cache/apt/archives/partial "$apt"/var/lib/dpkg "$apt/debs" "$folder"
: >"$apt/var/lib/dpkg/status"
cp -r /etc/apt/apt.conf.d/. "$apt/etc/apt/apt.conf.d/"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] ${mirror:-http://deb.debian.org/debian} $suite main" >"$apt/etc/apt/sources.list"
printf 'Dir "%s";\nDir::State::status "%s/var/lib/dpkg/status";\nAPT::Sandbox::User "";\n' "$apt" "$apt" >"$apt/apt.conf"
export APT_CONFIG=$apt/apt.conf

apt-get update -qq
needed=$(apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances mariadb-server-core |
  grep -E '^[a-z]' | grep -vE '^(perl|debconf|cdebconf|mysql|dpkg|tar|systemd)' | sort -u)
cd "$apt/debs"
# shellcheck disable=SC2086 # one word for each package
apt-get download -qq $needed mariadb-server
for package in *.deb; do dpkg-deb -x "$package" "$folder"; done
