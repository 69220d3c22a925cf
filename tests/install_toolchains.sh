#!/usr/bin/env bash
# Sees to it that the tests find the toolchains of the client programs: installs Debian's packages when we may.
# Whatever is missing afterwards is skipped at a desk and fails when CI=true; tests/toolchains.py decides.
set -euo pipefail

packages=()
command -v javac >/dev/null || packages+=(default-jdk-headless)
command -v go >/dev/null || packages+=(golang-go)
command -v node >/dev/null || packages+=(nodejs)
command -v npm >/dev/null || packages+=(npm)
command -v php >/dev/null || packages+=(php-cli)
php -m 2>/dev/null | grep -qx mysqli || packages+=(php-mysql)
[ ${#packages[@]} -eq 0 ] && exit 0

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
  echo "Tests of some clients will be skipped. To run them, install: ${packages[*]}" >&2
  exit 0
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq || true
for package in "${packages[@]}"; do # one by one: what cannot be had does not keep the others away
  apt-get install -y -qq --no-install-recommends "$package" >/dev/null || echo "$package could not be installed" >&2
done
