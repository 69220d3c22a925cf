#!/usr/bin/env bash
# Sees to it that the tests find Chromium: installs Debian's package when we may.
# Whatever is missing afterwards is skipped at a desk and fails when CI=true; tests/browser/conftest.py decides.
set -euo pipefail

if command -v chromium >/dev/null; then
  exit 0
fi
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
  echo "Chromium is missing: the tests in a browser will be skipped. Install chromium." >&2
  exit 0
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq || true
apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null || echo "chromium could not be installed" >&2
