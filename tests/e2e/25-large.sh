# SPDX-License-Identifier: GPL-2.0-or-later
# 18 TiB, blocks beyond 2^32: needs a folder that takes a sparse file of that size.
. "$(dirname "$0")/lib.sh"
cd "$T" || exit 1
if ! truncate -s 18T big.img 2>/dev/null; then
	skip "18 TiB: no sparse file of that size here"
	exit 0
fi
if ! mke2fs -q -F -t ext4 -b 4096 -O 64bit,sparse_super2,^resize_inode -N 65536 -J size=16 \
	-E packed_meta_blocks=1,num_backup_sb=0,lazy_itable_init=1,lazy_journal_init=1,nodiscard big.img; then
	skip "18 TiB: mke2fs does not make it"
	exit 0
fi
first=4300000000
{
	echo "write /dev/null big"
	echo "sif big flags 0x80000"
	for ((i = 0; i < 300; i++)); do echo "setb $((first + i * 3)) 1"; done
	echo "eo big"
	echo root
	echo "insert_node 0 1 $first"
	for ((i = 1; i < 300; i++)); do echo "insert_node --after $i 1 $((first + i * 3))"; done
	echo ec
	echo "sif big size $((300 * 4096))"
} | dbg big.img
{ # a block-mapped one, whose pointers don't reach all blocks
	head -c 3000 /dev/urandom >small
	echo "write small small"
} | dbg big.img
b=$(debugfs -R 'bmap small 0' big.img 2>/dev/null)
printf 'sif small flags 0\nsif small block[0] %d\n' "$b" >cmd
for ((i = 1; i < 15; i++)); do echo "sif small block[$i] 0"; done >>cmd
dbg big.img <cmd
e2fsck -fy big.img >/dev/null 2>&1
for i in 0 7 299; do
	printf 'block %d of the file' $i | dd of=big.img bs=4096 seek=$((first + i * 3)) conv=notrunc status=none
done
debugfs -R 'dump big before' big.img 2>/dev/null
is "18 TiB, blocks beyond 2^32" "$BIN" -q --json=r.json big.img
is "18 TiB: clean" clean big.img
debugfs -R 'dump big after' big.img 2>/dev/null
is "18 TiB: the file's bytes" cmp before after
is "18 TiB: a block-mapped file is left alone" \
	equal "$(jq .left_alone.block_mapped r.json)" 1
debugfs -R 'dump small small.after' big.img 2>/dev/null
is "18 TiB: its bytes" cmp small small.after
is "18 TiB: one run" equal "$(jq .after.fragmented_files r.json)" 0
is "18 TiB: little memory" test "$(jq .memory_peak_bytes r.json)" -lt 268435456
