# SPDX-License-Identifier: GPL-2.0-or-later
# Aged sample images, if there are any: SAMPLES=DIR with NAME.img.zst. Each is moved and judged; where
# loop mounts are allowed, e4defrag works on a copy, and must leave more excess runs than we do.
. "$(dirname "$0")/lib.sh"
cd "$T" || exit 1
if [ ! -d "${SAMPLES:-}" ]; then
	skip "SAMPLES is not set"
	exit 0
fi
export SOURCE_DATE_EPOCH=1700000001

excess() { "$BIN" -c --json "$1" 2>/dev/null | jq .before.excess_runs; }

e4defrag_leaves() { # FILE: excess runs after e4defrag; prints nothing where it can't run
	can_mount || return 1
	mkdir -p m && cp --sparse=always "$1" e4.img && mount -o loop e4.img m || return 1
	e4defrag m >/dev/null 2>&1
	umount m
	e2fsck -fy e4.img >/dev/null 2>&1
	excess e4.img
	rm -f e4.img
}

# of a sample filled so far, in thousandths: what has to be reached, and for how many bytes
goals() { # NAME
	local limit=2.2 what
	what=$(jq -r '"\(.before.fragmented_files) files fragmented, \(.after.fragmented_files) after; copied: " +
		"\(.work.bytes_moved) of \(.before.fragmented_blocks * .block_size) fragmented"' r.json)
	[ "$fill" -le 750 ] && limit=1.4
	is "$1, $((fill / 10)) % full: $what" jq -e "if $fill <= 950
		then .after.fragmented_files == 0 and .work.bytes_moved <= $limit * .before.fragmented_blocks * .block_size
		else .after.excess_runs <= .before.excess_runs / 10 end" r.json
}

sample() { # NAME
	local n0 n1 e4 fill
	n0=$(excess a.img)
	fill=$(dumpe2fs -h a.img 2>/dev/null | awk '/^Block count/ { b = $3 } /^Free blocks/ { f = $3 }
		END { printf "%d", (b - f) * 1000 / b }')
	cp --sparse=always a.img b.img
	e4=$(e4defrag_leaves a.img)
	done_well "$1: moved" a.img --threads 2 --json=r.json a.img
	goals "$1"
	"$BIN" -q --threads 1 b.img
	is "$1: --threads 1 and 2 give the same bytes" cmp a.img b.img
	n1=$(excess a.img)
	if [ -n "$e4" ]; then
		is "$1: excess runs $n0, left $n1, by e4defrag $e4" test "$n1" -lt "$e4"
	else
		is "$1: excess runs $n0, left $n1" test "$n1" -lt "$n0"
	fi
	before=$(sum a.img)
	is "$1: a second run plans nothing" equal "$("$BIN" --json a.img 2>/dev/null | jq .plan.bytes)" 0
	is "$1: and writes nothing" equal "$(sum a.img)" "$before"
}

for z in "$SAMPLES"/*.img.zst; do
	zstd -dqf "$z" -o a.img && sample "$(basename "$z" .img.zst)"
	rm -f ./*.img
done
