#!/usr/bin/env bash
# Installs what the benchmarks compare with, where it is missing, and runs them.
#   bench/run.sh [NAME...]
set -euo pipefail
cd "$(dirname "$0")/.."

missing=()
need() { [ -x "$(PATH=$PATH:/usr/sbin command -v "$1" || true)" ] || missing+=("$2"); }
need dockerd docker.io
need nginx nginx-light
need sshd openssh-server
need sftp openssh-client
need ip iproute2
need taskset util-linux
need psql postgresql
need etcd etcd-server
need slurmctld slurmctld
need slurmd slurmd
need sbatch slurm-client
need munged munge
if [ ${#missing[@]} -gt 0 ]; then
	echo "installing: ${missing[*]}"
	apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "${missing[@]}"
fi
export PATH=$PATH:/usr/sbin
exec "${GO:-go}" run ./bench "$@"
