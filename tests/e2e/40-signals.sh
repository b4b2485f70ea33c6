# SPDX-License-Identifier: GPL-2.0-or-later
# SIGTERM, SIGINT, SIGHUP: exit code 32, clean, content equal, and another run goes on.
# long
. "$(dirname "$0")/lib.sh"
cd "$T" || exit 1

image demo orig.img
want=$(digest orig.img)
cp orig.img x.img # before the second line after the first, so before anything is written
signal_after 1 TERM -q --measure --memory 20M --threads 1 x.img
is "SIGTERM stops --measure" equal "$? $(sum x.img)" "32 $(sum orig.img)"
for sig in TERM INT HUP; do
	stopped=0
	for i in $(seq 1 5 31); do # of more than 40 lines
		cp orig.img x.img
		signal_after "$i" $sig -q --batch-size 1M x.img
		rc=$?
		[ $rc = 32 ] && stopped=$((stopped + 1)) || not_ok "SIG$sig after line $i: exit code $rc"
		clean x.img >fsck.out 2>&1 || { not_ok "SIG$sig: not clean"; cat fsck.out; }
		[ "$(digest x.img)" = "$want" ] || not_ok "SIG$sig: content differs"
		if [ "$i" = 16 ]; then
			is "SIG$sig: something is written" sh -c '! cmp -s orig.img x.img'
			is "SIG$sig: needs_recovery is not set" \
				sh -c '! dumpe2fs -h x.img 2>/dev/null | grep -q needs_recovery'
			is "SIG$sig: another run goes on" "$BIN" -q x.img
			is "SIG$sig: to the end" equal "$(fragmented x.img)" 0
		fi
	done
	is "SIG$sig stops with exit code 32" equal $stopped 7
done
