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
for args in "--mode free" "--mode free --slab 1M" "--mode shrink"; do
	image demo x.img
	# shellcheck disable=SC2086
	done_well "$args" x.img $args --json=r.json x.img
	is "$args: the report names it" j ".mode == \"$(cut -d' ' -f2 <<<"$args")\""
	is "$args: no file is fragmented or worse" j '.after.fragmented_files == 0 and .worse == 0'
done
# slabs: what was asked for; by default none for an image file (I10: its plan is the same anywhere)
for args in "--mode free --slab 256K" "--mode free" "--mode free --slab 0"; do
	image base1k x.img
	# shellcheck disable=SC2086
	"$BIN" -n --json=r.json $args x.img >/dev/null
	is "$args: bytes of a slab" j ".slab_bytes == $([[ $args = *256K ]] && echo 262144 || echo 0)"
done
