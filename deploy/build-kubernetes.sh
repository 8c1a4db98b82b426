#!/usr/bin/env bash
# Build what tests need of Kubernetes from its Go modules: kube-apiserver,
# kube-scheduler, kubelet, helm, containerd and plugins of networks, or what is named.
# The published archives are not reachable from everywhere, and the module proxy is.
#
#   deploy/build-kubernetes.sh FOLDER [PROGRAM...]
#
# Programs that lie in the folder already are left as they are. All together are
# some twenty minutes of two processors; what is built once is kept.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/machine.sh"
out=${1:?usage: build-kubernetes.sh FOLDER [PROGRAM...]}
shift
version=v1.37.2
staging=v0.37.2
helm=v3.22.0
containerd=v2.4.2
cni=v1.10.0
go=${GO:-go}
mkdir -p "$out"
out=$(cd "$out" && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export CGO_ENABLED=0

# The module of Kubernetes names the modules of its own tree by a version that
# exists only in that tree. A module of our own names what was published with it.
kubernetes() {
	local path=k8s.io/kubernetes
	cd "$dir"
	local mod sum
	mod=$("$go" mod download -json $path@$version | sed -n 's/^\t"GoMod": "\(.*\)",\?$/\1/p')
	sum=$("$go" mod download -json $path@$version | sed -n 's/^\t"Dir": "\(.*\)",\?$/\1/p')/go.sum
	{
		echo "module kubernetes"
		echo
		sed -n 's/^go /go /p; s/^godebug /godebug /p' "$mod"
		sed -n '/^godebug (/,/^)/p' "$mod"
		echo "require $path $version"
		sed -n '/^require (/,/^)/p' "$mod" | sed "s/^\(\tk8s\.io\/[^ ]*\) v0\.0\.0$/\1 $staging/"
		sed -n '/^require (/,/^)/p' "$mod" | sed -n "s/^\t\(k8s\.io\/[^ ]*\) v0\.0\.0$/replace \1 => \1 $staging/p"
	} >go.mod
	cp "$sum" go.sum
	chmod u+w go.sum
}

[ $# -gt 0 ] || set -- kube-apiserver kube-scheduler kubelet helm containerd containerd-shim-runc-v2 bridge host-local loopback
for program; do
	[ -x "$out/$program" ] && continue
	case $program in
	helm)
		say "building helm $helm"
		GOBIN="$out" "$go" install -trimpath -ldflags "-s -w" "helm.sh/helm/v3/cmd/helm@$helm"
		;;
	containerd | containerd-shim-runc-v2)
		say "building $program $containerd"
		GOBIN="$out" "$go" install -trimpath -ldflags "-s -w" "github.com/containerd/containerd/v2/cmd/$program@$containerd"
		;;
	bridge | host-local | loopback)
		say "building $program of the network plugins $cni"
		kind=main
		[ "$program" != host-local ] || kind=ipam
		GOBIN="$out" "$go" install -trimpath -ldflags "-s -w" "github.com/containernetworking/plugins/plugins/$kind/$program@$cni"
		;;
	*)
		[ -e "$dir/go.mod" ] || kubernetes
		cd "$dir"
		say "building $program $version (minutes)"
		"$go" build -mod=mod -trimpath -gcflags=all=-dwarf=false \
			-ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$version" \
			-o "$out/$program.part" "k8s.io/kubernetes/cmd/$program"
		mv "$out/$program.part" "$out/$program"
		;;
	esac
done
