# SPDX-License-Identifier: GPL-2.0-or-later
# No journal: ext2, and ext4 without one (revision 0: 73-kinds.sh). All modes; stopped, killed, checked by
# e2fsck -p alone, and on to the end.
. "$(dirname "$0")/lib.sh"
cd "$T" || exit 1

mkdir -p tree/dir tree/other
for i in $(seq 80); do head -c $((i * 997 % 30000 + 300)) /dev/urandom >"tree/dir/f$i"; done
for i in $(seq 20); do ln -s nowhere "tree/other/a-link-with-a-name-of-some-length-$i"; done
for i in $(seq 7); do head -c $((900000 + i)) /dev/urandom >tree/large$i; done # each a batch
truncate -s 300M tree/sparse
for at in 0 40 270 2200 66000 300000; do
	dd if=/dev/urandom of=tree/sparse bs=1k seek=$at count=9 conv=notrunc status=none
done

make_image() { # FILE mke2fs-arguments...
	rm -f "$1"
	truncate -s 20M "$1" && mke2fs -q -F -N 400 -d tree "${@:2}" "$1" 2>/dev/null &&
		"$MKIMAGE" shatter "$1" >/dev/null || not_ok "cannot make $1"
}
state() { dumpe2fs -h "$1" 2>/dev/null | sed -n 's/^Filesystem state: *//p'; }

make_image ext2.img -t ext2 -b 1024
make_image ext2-4k.img -t ext2 -b 4096
make_image ext4.img -t ext4 -O ^has_journal,metadata_csum -b 1024

for img in ext2 ext2-4k ext4; do
	cp --sparse=always $img.img x.img
	is "$img: fragmented" test "$(fragmented x.img)" -gt 20
	done_well "$img" x.img x.img
	is "$img: says that there is no journal, before it writes" \
		sh -c 'sed -n 2p out | grep -q "^no journal: .*e2fsck -p x.img$"'
	is "$img: no fragmented file is left" equal "$(fragmented x.img)" 0
	is "$img: marked as clean" equal "$(state x.img)" clean
	before=$(sum x.img)
	is "$img: a second run" "$BIN" -q x.img
	is "$img: writes nothing" equal "$(sum x.img)" "$before"
done

for try in "ext4 free" "ext2 shrink" "ext4 layout"; do
	img=${try% *} mode=${try#* }
	cp --sparse=always $img.img x.img
	done_well "$try, small batches" x.img --mode $mode --batch-size 1M --verify x.img
	is "$try: no fragmented file is left" equal "$(fragmented x.img)" 0
done

# not clean: e2fsck has to look at it, and -p lets it
for img in ext2 ext4; do
	cp --sparse=always $img.img x.img
	echo 'ssv state 0' | dbg x.img
	refused "$img: not clean" 4 'not cleanly unmounted; run: e2fsck -p' x.img x.img
	done_well "$img: with -p" x.img -p x.img
	is "$img: with -p: clean" equal "$(state x.img)" clean
done

# Of about 20 lines of progress, half are of the batches.
for img in ext2 ext4; do
	want=$(digest $img.img)
	for i in 7; do
		cp --sparse=always $img.img x.img
		signal_after $i TERM -q --batch-size 1M x.img
		is "$img: SIGTERM after line $i" equal "$?, $(state x.img)" "32, clean"
		is "$img: nothing found" clean x.img
		is "$img: equal" equal "$(digest x.img)" "$want"

		cp --sparse=always $img.img x.img
		signal_after $i KILL -q --batch-size 1M x.img
		is "$img: SIGKILL after line $i" equal $? 247
		refused "$img: killed" 4 'not cleanly unmounted; run: e2fsck -p' x.img x.img
		e2fsck -p x.img >fsck.out 2>&1
		is "$img: e2fsck -p" test $? -le 1
		is "$img: nothing found after it" clean x.img
		is "$img: equal after it" equal "$(digest x.img)" "$want"
		done_well "$img: and on to the end" x.img x.img
		is "$img: nothing left" equal "$(fragmented x.img)" 0
	done
done
