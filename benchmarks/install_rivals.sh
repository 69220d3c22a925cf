#!/usr/bin/env bash
# Sees to it that a benchmark finds those whom it measures beside queuegate: installs Debian's packages when we may.
# install_rivals.sh passthrough: HAProxy and sysbench. install_rivals.sh topics PYTHON: sysbench, Redis, RabbitMQ and
# PostgreSQL, and their Python clients for that PYTHON, which the extra `rivals` names. install_rivals.sh celery PYTHON:
# Redis and RabbitMQ, and redis-py; Celery brings the client of RabbitMQ.
set -euo pipefail
PATH="$PATH:/usr/sbin:/usr/local/sbin"

lacks() { ! command -v "$1" >/dev/null; }

packages=()
if [ "$1" != celery ] && lacks sysbench; then packages+=(sysbench); fi
case "$1" in
passthrough)
  if lacks haproxy; then packages+=(haproxy); fi
  ;;
celery)
  if lacks redis-server; then packages+=(redis-server); fi
  if lacks rabbitmq-server; then packages+=(rabbitmq-server); fi
  if ! "$2" -c 'import redis' 2>/dev/null && "$2" -m pip --version >/dev/null 2>&1; then
    "$2" "$(dirname "$0")/../packaging/install.py" '.[dev,rivals]' || true # the report says who is absent
  fi
  ;;
topics)
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
