#!/usr/bin/env bash
# Start a whole cloud on this machine and take a guided first rental on it. What
# is missing is installed; a container engine that runs is used, else one is
# started. The cloud goes on running at the end; running this again uses it.
#
#   BIN=bin deploy/demo.sh
#
# SUANLI_DEMO_DIR (/var/lib/suanli-demo) is where everything of the demo is kept. The settings of
# suanli up can be given in the environment as ever (SUANLI_LISTEN and so on), and
# SUANLI_SIMULATE says which GPUs a machine without any pretends to have (8x4090).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/machine.sh"

bin=$(cd "${BIN:-$here/../bin}" && pwd)/suanli
dir=${SUANLI_DEMO_DIR:-/var/lib/suanli-demo}

if [ "$(id -u)" != 0 ]; then
	command -v sudo >/dev/null 2>&1 || { say "the demo needs root, for disks, networks and devices of instances: run it as root"; exit 1; }
	say "the demo needs root, for disks, networks and devices of instances: asking sudo"
	keep=$({ compgen -e SUANLI_ || true; } | tr '\n' ',')LANG,DOCKER_HOST
	exec sudo --preserve-env="$keep" env BIN="$(dirname "$bin")" "$here/demo.sh" "$@"
fi

mkdir -p "$dir"
chmod 700 "$dir"
export SUANLI_CLIENT_DIR=$dir/client

say "looking for what is missing"
want curl curl
want ca-certificates update-ca-certificates
want iproute2 ip
want e2fsprogs mkfs.ext4
want mount losetup
want mmdebstrap mmdebstrap
engine=$(running_engine || true)
if [ -z "$engine" ]; then
	want docker.io dockerd
	want iptables iptables
fi
install_wanted

if [ -z "$engine" ] && answers "$dir/engine/engine.sock"; then
	engine=unix://$dir/engine/engine.sock
fi
if [ -z "$engine" ]; then
	say "starting a container engine in $dir/engine"
	start_engine "$dir/engine"
	engine=unix://$dir/engine/engine.sock
fi
say "container engine: $engine"

listen=${SUANLI_LISTEN:-127.0.0.1:7080}
url=${SUANLI_PUBLIC_URL:-http://$listen}
ready() { curl -fsS --max-time 2 "http://$listen/readyz" >/dev/null 2>&1; }

if ready; then
	if [ ! -e "$dir/cloud/admin-password" ]; then
		say "something else answers on $listen; choose another address: SUANLI_LISTEN=127.0.0.1:7180 make demo"
		exit 1
	fi
	say "the cloud of an earlier run is up on $url"
else
	# A machine without GPUs offers simulated ones, labelled as such everywhere.
	simulate=()
	if ! ls /dev/nvidia[0-9]* /dev/kfd >/dev/null 2>&1; then
		say "no GPU on this machine: it will offer simulated ones, labelled \"simulated\""
		simulate=(--allow-simulated=true --simulate="${SUANLI_SIMULATE:-8x4090}")
	fi
	say "starting suanli up; its log is $dir/cloud.log"
	setsid "$bin" up --data-dir "$dir/cloud" --docker "$engine" "${simulate[@]}" >>"$dir/cloud.log" 2>&1 </dev/null &
	echo $! >"$dir/cloud.pid"
	for ((i = 0; i < 150; i++)); do
		if ready; then break; fi
		kill -0 "$(cat "$dir/cloud.pid")" 2>/dev/null || { tail -n 5 "$dir/cloud.log" >&2; say "the cloud did not start"; exit 1; }
		sleep 0.1
	done
	ready || { say "the cloud does not answer on $listen; look at $dir/cloud.log"; exit 1; }
fi

rootfs=$dir/digits.tar
if [ ! -e "$rootfs" ]; then
	say "building the demo image from this distribution's packages (about half a minute)"
	"$here/demo-image/build.sh" "$rootfs"
fi
"$bin" login "$url" --email "${SUANLI_ADMIN_EMAIL:-admin@localhost}" --password-file "$dir/cloud/admin-password"
# Pushing what is there already moves no data.
"$bin" image push digits:1 "$rootfs"

"$bin" demo "$url" --email "${SUANLI_ADMIN_EMAIL:-admin@localhost}" --password-file "$dir/cloud/admin-password" --cuda-script "$here/demo-image/train_torch.py"
echo
say "the cloud goes on running (pid $(cat "$dir/cloud.pid" 2>/dev/null || echo unknown)). To use it from this shell:"
echo "  export SUANLI_CLIENT_DIR=$dir/client PATH=$(dirname "$bin"):\$PATH"
say "to stop it: kill $(cat "$dir/cloud.pid" 2>/dev/null || echo PID)"
if [ -e "$dir/engine/engine.pid" ]; then
	say "and the engine that was started for it: kill $(cat "$dir/engine/engine.pid")"
fi
say "to remove what it leaves: end its leases (suanli ps, suanli end), stop both, then: rm -rf $dir"
say "packages that were installed stay; the rules of its firewall go with: nft delete table inet ${SUANLI_FIREWALL_TABLE:-suanli}"
