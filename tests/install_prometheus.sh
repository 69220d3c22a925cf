#!/usr/bin/env bash
# Sees to it that the tests find Prometheus and promtool: installs Debian's package when we may.
# Whatever is missing afterwards is skipped at a desk and fails when CI=true; tests/support/prometheus_server.py decides.
set -euo pipefail

if command -v prometheus >/dev/null && command -v promtool >/dev/null; then
  exit 0
fi
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
  echo "Prometheus is missing: the tests of the alerts will be skipped. Install prometheus." >&2
  exit 0
fi

# The tests start a private server themselves; the package shall not start one of its own.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod +x "$policy"
  trap 'rm -f "$policy"' EXIT
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq || true
apt-get install -y -qq --no-install-recommends prometheus >/dev/null || echo "prometheus could not be installed" >&2
