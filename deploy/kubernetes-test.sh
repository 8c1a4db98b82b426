#!/usr/bin/env bash
# Test hosts that are Kubernetes clusters, against a real API server, scheduler and
# etcd, and the Helm chart with helm. What is missing of these is built or installed.
#
#   deploy/kubernetes-test.sh FOLDER [ARGUMENT...]
#
# FOLDER keeps the programs. The arguments are further ones for go test.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/machine.sh"
folder=${1:?usage: kubernetes-test.sh FOLDER [ARGUMENT...]}
shift
want etcd-server etcd
install_wanted || true # the tests that need it say so
"$here/build-kubernetes.sh" "$folder"
folder=$(cd "$folder" && pwd)
cd "$here/.."
exec env SUANLI_TEST_KUBERNETES="$folder" "${GO:-go}" test -count=1 -v "$@" ./internal/agent/runtime/kubernetes
