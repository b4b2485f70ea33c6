# SPDX-License-Identifier: GPL-2.0-or-later
# More images, if there are any: CASES=DIR with images named cNN_*.img (known hard cases).
. "$(dirname "$0")/lib.sh"
cd "$T" || exit 1
if [ ! -d "${CASES:-}" ]; then
	skip "CASES is not set"
	exit 0
fi

take() { [ -f "$CASES/$1" ] && cp --sparse=always "$CASES/$1" x.img || { skip "$1 is not there"; return 1; }; }
moved() { take "$1" && done_well "$1 moved" x.img x.img && is "$1: nothing fragmented is left" equal "$(fragmented x.img)" "${2:-0}"; }
flock_free() { # no OFD lock on qemu's bytes of x.img
	python3 -c 'import fcntl, struct, sys
b = fcntl.fcntl(open("x.img", "r+b"), 36, struct.pack("hhqqi4x", 1, 0, 201, 1, 0)) # F_OFD_GETLK
sys.exit(struct.unpack("hhqqi4x", b)[0] != 2)'
}
no() { take "$1" && refused "$1 refused" "$2" "$3" x.img x.img; }

moved c01_deep.img
no c03_dirty.img 4 e2fsck
take c03_dirty.img && is "c03 with -p" "$BIN" -q -p x.img && is "c03: clean" clean x.img
no c04_jw.img 4 e2fsck
take c04_jw.img && cp x.img y.img && e2fsck -p y.img >/dev/null 2>&1
take c04_jw.img && is "c04 with -p" "$BIN" -q -p x.img && is "c04: content" equal "$(digest x.img)" "$(digest y.img)"
moved c06_uninit.img
take c07_full.img && done_well "c07 as good as it gets" x.img x.img
moved c08_bigalloc.img
take c10_ea.img && done_well "c10" x.img x.img
take c11_inline.img && done_well "c11" x.img x.img
no c17_short.img '(4|16)' .
moved c20_ind.img
no c21_orphan.img 4 e2fsck
if take c18_busy.img && [ -f "$CASES/hold_qemu_lock.py" ]; then
	python3 "$CASES/hold_qemu_lock.py" x.img 300 &
	children+=($!)
	until ! flock_free; do sleep 0.05; done
	refused "c18 locked as by qemu" 8 "qemu's image lock" x.img x.img
	kill $! && wait $! 2>/dev/null
fi
take c21_orphan_clean.img && done_well "c21" x.img x.img
no c23_shared.img 16 .
no c24_extj.img 16 journal
no c26_err.img 4 e2fsck
no c26_notclean.img '(4|16)' .
moved c27_tinyj.img
