# SPDX-License-Identifier: GPL-2.0-or-later
# SIGTERM, SIGINT, SIGHUP: exit code 32, clean, content equal, and another run goes on.
. "$(dirname "$0")/lib.sh"
cd "$T" || exit 1

image demo orig.img
want=$(digest orig.img)
for sig in TERM INT HUP; do
	stopped=0
	for i in $(seq 1 12); do
		cp orig.img x.img
		# SIGINT of a background job is ignored unless set anew
		python3 - "$BIN" x.img $sig "$i" <<'P'
import signal, subprocess, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
p = subprocess.Popen([sys.argv[1], '-q', '--batch-size', '1M', sys.argv[2]])
time.sleep(0.012 * int(sys.argv[4]))
p.send_signal(getattr(signal, 'SIG' + sys.argv[3]))
sys.exit(p.wait() & 0xff)
P
		rc=$?
		[ $rc = 32 ] && stopped=$((stopped + 1))
		case $rc in
		32 | 0 | 241 | 254 | 255) ;; # stopped, done, or before the handler was there
		*) not_ok "SIG$sig: exit code $rc" ;;
		esac
		clean x.img >fsck.out 2>&1 || { not_ok "SIG$sig: not clean"; cat fsck.out; }
		[ "$(digest x.img)" = "$want" ] || not_ok "SIG$sig: content differs"
		if [ $rc = 32 ] && [ $stopped = 1 ]; then
			is "SIG$sig: needs_recovery is not set" \
				sh -c '! dumpe2fs -h x.img 2>/dev/null | grep -q needs_recovery'
			is "SIG$sig: another run goes on" "$BIN" -q x.img
			is "SIG$sig: to the end" equal "$(fragmented x.img)" 0
		fi
	done
	is "SIG$sig stops with exit code 32" test $stopped -gt 0
done
