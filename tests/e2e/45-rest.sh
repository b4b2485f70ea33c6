# SPDX-License-Identifier: GPL-2.0-or-later
# SIGTERM while room is made on a full image: the run goes on until no file is worse than before,
# then exit code 32, clean, content equal; another run goes on to the end.
. "$(dirname "$0")/lib.sh"
cd "$T" || exit 1

# runs IMAGE: a line for each file, its inode and how many runs its blocks are in
runs() {
	"$BIN" -n --dump-snapshot "$1" 2>/dev/null | awk '
		$1 == "file" { ino = $2; n[ino] = 0; last = -1 }
		$1 == "ext" { n[ino] += $4 != last; last = $4 + $3 }
		END { for (i in n) print i, n[i] }' | sort
}
# none_worse BEFORE AFTER: of two such lists
none_worse() {
	[ -s "$1" ] && equal "$(cut -d' ' -f1 "$2")" "$(cut -d' ' -f1 "$1")" || return 1
	! join "$1" "$2" | awk '$3 > $2 { print "inode " $1 ": " $2 " runs, now " $3; bad = 1 }
		END { exit !bad }'
}

for r in treeway cycles fullmail; do
	image "$r" orig.img
	want=$(digest orig.img)
	runs orig.img >before
	stopped=0 halfway=0
	for i in $(seq 1 6); do
		cp orig.img x.img
		signal_after "$i" TERM -q --batch-size 1M x.img
		rc=$?
		case $rc in
		32) stopped=$((stopped + 1)) ;;
		0) ;; # the signal came when all was done
		*) not_ok "$r: exit code $rc" ;;
		esac
		clean x.img >fsck.out 2>&1 || { not_ok "$r: not clean"; cat fsck.out; }
		[ "$(digest x.img)" = "$want" ] || not_ok "$r: content differs"
		runs x.img >after
		none_worse before after >why || { not_ok "$r: files are worse than before"; cat why; }
		[ $rc = 32 ] && ! cmp -s orig.img x.img || continue
		halfway=$((halfway + 1))
		[ $halfway = 1 ] || continue
		is "$r: needs_recovery is not set" \
			sh -c '! dumpe2fs -h x.img 2>/dev/null | grep -q needs_recovery'
		done_well "$r: another run goes on" x.img -q x.img
		is "$r: to the end" equal "$(fragmented x.img)" 0
	done
	# the first one comes before anything is moved
	is "$r: SIGTERM stops with exit code 32" test $stopped -gt 0
	[ $halfway -gt 0 ] || skip "$r: no signal came while it wrote"
done
