# SPDX-License-Identifier: GPL-2.0-or-later
# --mode and --slab: what is refused, and that every mode leaves the files as good as `files` does.
. "$(dirname "$0")/lib.sh"
cd "$T" || exit 1

j() { jq -e "$1" r.json; }
lines=2
refused "--slab with another mode" 16 '--slab needs --mode free' "" --slab 1M x.img
lines=1
image demo x.img
refused "a slab that is no multiple of the block size" 16 'block size' x.img --mode free --slab 6K x.img
(head -c 512 /dev/zero; cat x.img) >odd.img
refused "blocks that are not aligned" 16 'not aligned' odd.img --mode free --slab 64K 'odd.img?offset=512'
for args in "--mode free" "--mode free --slab 1M" "--mode shrink" "--mode layout"; do
	image demo x.img
	# shellcheck disable=SC2086
	done_well "$args" x.img $args --json=r.json x.img
	is "$args: the report names it" j ".mode == \"$(cut -d' ' -f2 <<<"$args")\""
	is "$args: no file is fragmented or worse" j '.after.fragmented_files == 0 and .worse == 0'
done

# what resize2fs -M moves afterwards
image demo demo.img
image metabg metabg.img
BIN=$BIN "$top/scripts/shrunk" demo.img metabg.img >moved 2>&1
is "shrink: resize2fs -M moves no data, and files stay whole" equal $? 0
grep '^| [dm]' moved
is "shrink: without it there is data to move" awk '/^[|] [dm]/ && $12 > 0 { n++ } END { exit n != 2 }' moved
is "shrink: what else it moves is counted, a journal" awk '/^[|] metabg/ { n = $16 } END { exit n != 1024 }' moved
rm demo.img metabg.img

# slabs: what was asked for; by default none for an image file (I10: its plan is the same anywhere)
for args in "--mode free --slab 256K" "--mode free" "--mode free --slab 0"; do
	image base1k x.img
	# shellcheck disable=SC2086
	"$BIN" -n --json=r.json $args x.img >/dev/null
	is "$args: bytes of a slab" j ".slab_bytes == $([[ $args = *256K ]] && echo 262144 || echo 0)"
done
# slabs are the disk's, wherever the file system begins in one
wholly_free() { # IMAGE BYTES: slabs of 256 KiB, when the file system begins so many bytes into one
	"$BIN" -n --dump-snapshot "$1" | awk -v into="$2" -v slab=262144 '
		$1 == "geometry" { bs = $3 }
		$1 == "free" { a = $2 * bs + into; z = a + $3 * bs
			c = int(z / slab) - int((a + slab - 1) / slab); n += c > 0 ? c : 0 }
		END { print n + 0 }'
}
image base1k fs.img
(head -c 65536 /dev/zero; cat fs.img) >x.img
"$BIN" -q --mode free --slab 256K 'x.img?offset=65536'
is "--slab behind an offset" equal $? 0
tail -c +65537 x.img >at.img
"$BIN" -q --mode free --slab 256K fs.img
is "--slab: more of the disk's than without the offset" \
	test "$(wholly_free at.img 65536)" -gt "$(wholly_free fs.img 65536)"
rm -f at.img

# layout: the figures get better, a second run has nothing to do, and the front list is in front.
image demo x.img
before=$("$BIN" -c --mode layout --json x.img | jq .before.layout.seeks)
done_well "layout" x.img --mode layout --json=r.json x.img
is "layout: fewer seeks" j ".before.layout.seeks == $before and .after.layout.seeks < .before.layout.seeks"
is "layout: what was predicted" j '.predicted.layout == .after.layout'
is "layout: a request for each file" j '.after.layout.requests == .after.files'
is "layout: it says what a full rewrite would be" j '.full_rewrite_bytes > 0'
is "layout: a second run" "$BIN" --mode layout --json=r.json x.img
is "layout: moves nothing" j '.outcome == "nothing_to_do" and .plan.bytes == 0'

# as few requests as a fresh copy needs
mkdir copy && debugfs -R 'rdump / copy' x.img 2>/dev/null >&2
truncate -s "$(stat -c %s x.img)" fresh.img
mke2fs -q -F -t ext4 -b "$(jq .block_size r.json)" -d copy fresh.img
fresh=$("$BIN" -c --mode layout --json fresh.img | jq .before.layout.requests)
is "layout: requests of a fresh copy: $fresh" j ".before.layout.requests <= 1.05 * $fresh"

# layout: trees come to their data, or as near as what they lay on before lets them
image trees t.img
astray() { "$BIN" -n --mode layout --dump-snapshot t.img | awk '
	function count(  i) { for (i = 1; i <= k; i++) n += t[i] < first - 2 * k || t[i] >= first; k = 0; first = "" }
	$1 == "file" { count() } $1 == "ext" && first == "" { first = $4 } $1 == "node" { t[++k] = $3 }
	END { count(); print n + 0 }'; }
is "layout: trees are somewhere else" test "$(astray)" -gt 4
done_well "layout: trees" t.img --mode layout --json=r.json t.img
is "layout: they are before their data" equal "$(astray)" 0
is "layout: for few copies" j '.work.bytes_moved < 100000'
is "layout: a second run on trees" "$BIN" --mode layout --json=r.json t.img
is "layout: moves no tree" j '.outcome == "nothing_to_do"'

# the front list: of all files, these are the lowest ones, in this order (the single blocks of
# directories fit in gaps before them)
inodes=$("$BIN" -n --dump-snapshot x.img | awk '$1 == "file" && $3 == "file" { print $2 }' | tail -3)
printf '/no/such/file\n%s\n' "$inodes" >front
done_well "--front-list" x.img --mode layout --front-list front --json=r.json x.img
is "--front-list: files found" j '.front_files == 3 and .work.bytes_moved > 0'
first() { "$BIN" -n --dump-snapshot x.img | awk '$1 == "file" { f = $2; k = $3 }
	$1 == "ext" && k == "file" { print $4, f }' | sort -n | awk '!seen[$2]++ { print $2 }' | head -3; }
is "--front-list: they are in front" equal "$(first)" "$inodes"
is "--front-list: a second run" "$BIN" --mode layout --front-list front --json=r.json x.img
is "--front-list: moves nothing" j '.plan.bytes == 0'

# --reserve: behind a file with the name of a log, and one that was written to all its life
image demo x.img
head -c 70000 x.img >f
dbg x.img <<E2
write f app.log
write f plain
write f steady
sif app.log crtime @0x6553f120
sif app.log mtime @0x6553f120
sif plain crtime @0x6553f120
sif plain mtime @0x6553f120
sif steady crtime @0x6553f120
sif steady mtime @0x65550000
E2
ino() { debugfs -R "stat $1" x.img 2>/dev/null | sed -n 's/^Inode: \([0-9]*\).*/\1/p'; }
grows=$("$BIN" -n --mode layout --reserve --dump-snapshot x.img | awk '$NF == "grows" { print $2 }')
is "--reserve: the files that grow" equal "$grows" "$(ino app.log; ino steady)"
done_well "--reserve" x.img --mode layout --reserve --json=r.json x.img
room() { "$BIN" -n --mode layout --dump-snapshot x.img | awk -v ino="$(ino "$1")" '
	$1 == "file" { f = $2 } $1 == "ext" && f == ino { end = $3 + $4 }
	$1 == "free" && $2 == end { print $3 }'; }
bs=$(jq .block_size r.json)
# up to 128K, which the kernel asks for
for f in app.log steady; do
	n=$(room $f)
	is "--reserve: room behind $f" test "$((${n:-0} * bs))" -ge $((131072 - 70000 - bs))
done
is "--reserve: none behind others" equal "$(room plain)" ""
is "--reserve: a second run" "$BIN" --mode layout --reserve --json=r.json x.img
is "--reserve: moves nothing" j '.plan.bytes == 0'
