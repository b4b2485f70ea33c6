# SPDX-License-Identifier: GPL-2.0-or-later
# Block-mapped files, as ext2 and ext3 have them, on images made without mounting: every block size,
# every level of indirect blocks, holes; nothing becomes a file of extents.
. "$(dirname "$0")/lib.sh"
cd "$T" || exit 1

put() { dd if=/dev/urandom of="$1" bs=1k seek="$2" count="$3" conv=notrunc status=none; }

# files with blocks at the places where each level of indirect blocks begins, for these block sizes
make_tree() {
	mkdir -p tree/dir
	for i in $(seq 60); do head -c $((i * 997 % 30000 + 300)) /dev/urandom >"tree/dir/f$i"; done
	for i in $(seq 300); do ln -s nowhere "tree/dir/a-link-with-a-name-of-some-length-$i"; done
	ln -s "$(head -c 200 /dev/zero | tr '\0' s)" tree/slow
	head -c 6000000 /dev/urandom >tree/large
	for at in 0 40 270 600 2200 4200 65000 66000 67000 540000 4300000 4400000; do
		put tree/sparse $at 9
	done
	truncate -s 5G tree/sparse
	put tree/last 4299999 1
}
make_tree

extents_in() { # FILE: inodes with the flag for extents
	local i n=$(dumpe2fs -h "$1" 2>/dev/null | sed -n 's/^Inode count: *//p')
	for i in $(seq 11 "$((n < 800 ? n : 800))"); do echo "stat <$i>"; done |
		debugfs -f - "$1" 2>/dev/null | grep -c 'Flags: 0x8[0-9a-f]\{4\}$'
}

judge() { # NAME IMAGE
	local name=$1 img=$2 flags
	"$MKIMAGE" shatter "$img" >/dev/null || { not_ok "$name: cannot shatter it"; return; }
	flags=$(extents_in "$img")
	is "$name: fragmented" test "$(fragmented "$img")" -gt 20
	is "$name: nothing is left alone for its mapping" \
		equal "$("$BIN" -c --json "$img" 2>/dev/null | jq .left_alone.block_mapped)" 0
	done_well "$name" "$img" "$img"
	is "$name: no fragmented file is left" equal "$(fragmented "$img")" 0
	is "$name: as many files of extents as before" equal "$(extents_in "$img")" "$flags"
	# the judge that knows where indirect blocks belong
	e2fsck -fn -E fragcheck "$img" 2>/dev/null |
		grep '^ *[0-9]*(f)' | grep -v '^ *8(f)' >parts # the journal may lie as it likes
	is "$name: e2fsck agrees" equal "$(wc -l <parts)" 0
}

for bs in 1024 2048 4096; do
	truncate -s 48M x.img
	mke2fs -q -F -t ext3 -b $bs -N 800 -d tree x.img 2>/dev/null
	judge "ext3, blocks of $bs" x.img
	rm x.img
	truncate -s 48M x.img
	mke2fs -q -F -t ext4 -O ^extent,^64bit,metadata_csum -b $bs -N 800 -d tree x.img 2>/dev/null
	cp --sparse=always x.img small.img
	judge "ext4 without extents, blocks of $bs" x.img
	"$MKIMAGE" shatter small.img >/dev/null
	done_well "ext4 without extents, blocks of $bs, in small batches" small.img \
		--batch-size 1M --verify small.img
	rm x.img
done

# other aims: together with free space, and pushed down
for mode in free shrink; do
	cp --sparse=always small.img x.img
	"$MKIMAGE" shatter x.img >/dev/null
	done_well "--mode $mode" x.img --mode $mode x.img
	is "--mode $mode: no fragmented file is left" equal "$(fragmented x.img)" 0
	[ $mode = shrink ] && is "resize2fs -M after it" resize2fs -M x.img && is "clean" clean x.img
done

# ext3 made ext4, and files of extents beside
truncate -s 48M up.img
mke2fs -q -F -t ext3 -b 1024 -N 800 -d tree/dir up.img 2>/dev/null
tune2fs -O extents,uninit_bg,dir_index up.img >/dev/null 2>&1
e2fsck -fy up.img >/dev/null 2>&1
printf 'write tree/large large\nwrite tree/dir/f7 seven\nmkdir new\n' | dbg up.img
is "made ext4: there are files of extents" test "$(extents_in up.img)" -ge 2
judge "made ext4" up.img

# a damaged pointer is refused
mke2fs -q -F -t ext3 -b 1024 x.img 4096 2>/dev/null
head -c 50000 /dev/urandom >f
printf 'write f f\nsif f block[IND] 99999\n' | dbg x.img
refused "a pointer that leads outside" 4 'inode 12: block 99999: it points outside.*e2fsck -f' x.img x.img
