#!/usr/bin/env bash
# Sees to it that a benchmark finds those whom it measures beside queuegate: installs Debian's packages when we may.
# install_rivals.sh passthrough: HAProxy and sysbench. install_rivals.sh topics PYTHON: sysbench, Redis, RabbitMQ and
# PostgreSQL, and their Python clients for that PYTHON, which the extra `rivals` names. install_rivals.sh celery PYTHON:
# Redis and RabbitMQ, and redis-py; Celery brings the client of RabbitMQ. install_rivals.sh django PYTHON: an environment
# of its own with Django and its task backends, beside that PYTHON's; prints the path of its Python, which is 3.12 or newer.
# install_rivals.sh java: a JDK.
set -euo pipefail
PATH="$PATH:/usr/sbin:/usr/local/sbin"

lacks() { ! command -v "$1" >/dev/null; }

python_for_django() {
  local candidate
  for candidate in python3.14 python3.13 python3.12 "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1[2-4].*/bin/python; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  return 1
}

if [ "$1" = django ]; then
  folder="$(dirname "$(dirname "$2")")/django"
  wanted='dj-queue==0.14.2 django-tasks-db==0.13.0 mysqlclient==2.3.2'
  if [ "$(cat "$folder/installed" 2>/dev/null)" != "$wanted" ]; then
    rm -rf "$folder"
    "$(python_for_django)" -m venv "$folder" >&2
    # shellcheck disable=SC2086
    "$folder/bin/python" -m pip install -q --disable-pip-version-check $wanted >&2
    echo "$wanted" >"$folder/installed"
  fi
  echo "$folder/bin/python"
  exit 0
fi

packages=()
case "$1" in
passthrough)
  if lacks sysbench; then packages+=(sysbench); fi
  if lacks haproxy; then packages+=(haproxy); fi
  ;;
celery)
  if lacks redis-server; then packages+=(redis-server); fi
  if lacks rabbitmq-server; then packages+=(rabbitmq-server); fi
  if ! "$2" -c 'import redis' 2>/dev/null && "$2" -m pip --version >/dev/null 2>&1; then
    "$2" "$(dirname "$0")/../packaging/install.py" '.[dev,rivals]' || true # the report says who is absent
  fi
  ;;
java)
  if lacks javac; then packages+=(default-jdk-headless); fi
  ;;
topics)
  if lacks sysbench; then packages+=(sysbench); fi
  if lacks redis-server; then packages+=(redis-server); fi
  if lacks rabbitmq-server; then packages+=(rabbitmq-server); fi
  if ! compgen -G "/usr/lib/postgresql/*/bin/initdb" >/dev/null; then packages+=(postgresql); fi
  if ! "$2" -c 'import pika, psycopg, redis, rstream' 2>/dev/null && "$2" -m pip --version >/dev/null 2>&1; then
    "$2" "$(dirname "$0")/../packaging/install.py" '.[rivals]' || true # the report says who is absent
  fi
  ;;
esac

if [ "${#packages[@]}" -eq 0 ]; then
  exit 0
fi
if [ "$(id -u)" -ne 0 ] || lacks apt-get; then
  exit 0 # the benchmark says what it leaves out
fi

# The benchmark starts private servers itself; the packages shall not start any of their own.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod +x "$policy"
  trap 'rm -f "$policy"' EXIT
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
