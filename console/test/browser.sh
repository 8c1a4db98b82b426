#!/bin/sh
# Starts the browser in a network of its own, where the cloud is all that there is.
# Chromium gives up what it loads when the machine's network changes, which it does
# each time a container starts or ends.
set -eu
if [ -z "${SUANLI_APART:-}" ]; then
	export SUANLI_APART=1
	unshare --net -- true || exec "$SUANLI_CHROMIUM" "$@"
	exec unshare --net -- "$0" "$@"
fi
# It takes itself for offline where there is nothing but a loopback.
ip link set lo up
ip link add outside type veth peer name nowhere
# Without addresses that come a second later by themselves: that is a change, too.
ip link set outside addrgenmode none
ip link set nowhere addrgenmode none
ip address add 192.0.2.1/24 dev outside
ip link set outside up
ip link set nowhere up
said=$(mktemp -u)
mkfifo "$said"
# It ends with the browser, which takes the place of this shell.
setpriv --pdeathsig KILL node "$(dirname "$0")/apart.mjs" within >"$said" 2>&1 </dev/null 3<&- 4>&- &
read -r state <"$said"
rm "$said"
[ "$state" = ready ] || { echo "$state" >&2; exit 1; }
exec "$SUANLI_CHROMIUM" "$@"
