# Sourced by the scripts beside it: what they need of a Debian or Ubuntu machine,
# installed when missing, and a container engine. Nothing here needs systemd.
# shellcheck shell=bash

PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }

# as_root runs a command as root, if there is a way.
as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	elif command -v sudo >/dev/null 2>&1; then
		if [ -t 0 ]; then sudo "$@"; else sudo -n "$@"; fi
	else
		return 1
	fi
}

packages=()

# want PACKAGE PROGRAM notes a package down if its program is missing.
want() {
	command -v "$2" >/dev/null 2>&1 || packages+=("$1")
}

# install_wanted installs what was noted down. It returns an error, after saying
# so, if that is not possible.
install_wanted() {
	[ "${#packages[@]}" -gt 0 ] || return 0
	say "installing ${packages[*]}"
	if ! command -v apt-get >/dev/null 2>&1; then
		say "this is neither Debian nor Ubuntu; install by hand what corresponds to: ${packages[*]}"
		return 1
	fi
	local log clusters=/etc/postgresql-common/createcluster.conf made_clusters=
	log=$(mktemp)
	# Debian's PostgreSQL makes a database and starts it when it is installed; a
	# private one is all that is wanted here.
	if [ ! -e "$clusters" ] && [[ " ${packages[*]} " == *" postgresql "* ]]; then
		as_root mkdir -p "${clusters%/*}" && echo 'create_main_cluster = false' | as_root tee "$clusters" >/dev/null && made_clusters=1
	fi
	local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dpkg::Use-Pty=0 -o Dpkg::Options::=--force-confold)
	if ! as_root "${apt[@]}" install --no-install-recommends "${packages[@]}" >"$log" 2>&1 </dev/null; then
		# The lists of a fresh machine are empty or old.
		if ! { as_root "${apt[@]}" update && as_root "${apt[@]}" install --no-install-recommends "${packages[@]}"; } >>"$log" 2>&1 </dev/null; then
			tail -n 20 "$log" >&2
			say "could not install ${packages[*]}; the whole output is in $log. Run this as root, or install them by hand."
			return 1
		fi
	fi
	if [ -n "$made_clusters" ]; then
		as_root sed -i 's/^create_main_cluster = false/#create_main_cluster = true/' "$clusters"
	fi
	rm -f "$log"
	packages=()
	hash -r
}

# answers is whether a container engine serves its API on a socket.
answers() {
	[ -S "$1" ] && curl -fsS --max-time 5 --unix-socket "$1" http://engine/_ping >/dev/null 2>&1
}

# running_engine prints the address of a container engine that runs already.
running_engine() {
	local s
	case "${DOCKER_HOST:-}" in
	unix://*)
		if answers "${DOCKER_HOST#unix://}"; then
			echo "$DOCKER_HOST"
			return 0
		fi
		;;
	esac
	for s in /run/docker.sock /var/run/docker.sock /run/podman/podman.sock; do
		if answers "$s"; then
			echo "unix://$s"
			return 0
		fi
	done
	return 1
}

# start_engine DIR starts a Docker of its own, whose files and socket are all in
# DIR; its process id is in DIR/engine.pid and its output in DIR/engine.log.
start_engine() {
	local dir=$1 i
	mkdir -p "$dir"
	# In a session of its own, so that Ctrl-C reaches it by way of stop_engine only.
	as_root setsid dockerd --data-root "$dir/data" --exec-root "$dir/exec" --pidfile "$dir/engine.pid" \
		--host "unix://$dir/engine.sock" >>"$dir/engine.log" 2>&1 </dev/null &
	for ((i = 0; i < 120; i++)); do
		if answers "$dir/engine.sock"; then return 0; fi
		if ((i > 4)) && ! kill -0 $! 2>/dev/null; then break; fi
		sleep 0.5
	done
	grep -v 'level=info' "$dir/engine.log" | tail -n 10 >&2
	say "the container engine did not start; its output is in $dir/engine.log"
	return 1
}

# gone PID waits up to 20 s for a process to end. One that nobody has waited for
# counts as ended: the first process of a container does not always do that.
gone() {
	local i
	for ((i = 0; i < 100; i++)); do
		grep -qs '^State:[[:space:]]*[^ZX]' "/proc/$1/status" || return 0
		sleep 0.2
	done
	return 1
}

# stop_engine DIR stops the engine of start_engine, with all that runs in it.
stop_engine() {
	local dir=$1 file pid p
	[ -d "$dir" ] || return 0
	for file in "$dir/engine.pid" "$dir/exec/containerd/containerd.pid"; do
		pid=$(cat "$file" 2>/dev/null) && as_root kill "$pid" 2>/dev/null || continue
		gone "$pid" || as_root kill -9 "$pid" 2>/dev/null || true
	done
	# What an engine that was killed has left behind.
	for p in /proc/[0-9]*; do
		if { tr '\0' ' ' <"$p/cmdline"; } 2>/dev/null | grep -qF -- "-address $dir/exec/"; then
			as_root kill -9 "${p#/proc/}" 2>/dev/null || true
		fi
	done
}

# kill_engine DIR kills the engine of start_engine without warning and starts it
# again, as after a crash.
kill_engine() {
	local dir=$1 pid containerd=$1/exec/containerd/containerd.pid
	pid=$(cat "$dir/engine.pid")
	as_root kill -9 "$pid"
	gone "$pid"
	# The kernel ends containerd with it. Where the first process does not wait
	# for it, its number stays taken and the next engine would wait for it in vain.
	if pid=$(cat "$containerd" 2>/dev/null) && gone "$pid"; then
		as_root rm -f "$containerd"
	fi
	start_engine "$dir"
}

# remove_tree DIR unmounts whatever is mounted below DIR and removes it.
remove_tree() {
	local dir=$1 m
	while read -r m; do
		as_root umount -l "$m" 2>/dev/null || true
	done < <(awk -v d="$dir/" 'index($2, d) == 1 { print $2 }' /proc/self/mounts | sort -r)
	as_root rm -rf --one-file-system "$dir"
}
