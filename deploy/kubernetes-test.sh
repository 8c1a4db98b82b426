#!/usr/bin/env bash
# Test hosts that are Kubernetes clusters, against a real API server, scheduler and
# etcd, with nodes that are the test's and, as root, with a real kubelet and containerd
# in a network of their own; and the Helm chart with helm. What is missing of these is
# built or installed.
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
want runc runc
want iptables iptables
want iproute2 ip
install_wanted || true # the tests that need them say so
"$here/build-kubernetes.sh" "$folder"
folder=$(cd "$folder" && pwd)
cd "$here/.."
exec env CGO_ENABLED=0 SUANLI_TEST_KUBERNETES="$folder" "${GO:-go}" test -count=1 -v "$@" ./internal/agent/runtime/kubernetes
