# SPDX-License-Identifier: GPL-2.0-or-later
# Giving free space back: holes in image files, discards on devices, and what of it is never done.
. "$(dirname "$0")/lib.sh"
cd "$T" || exit 1

j() { jq -e "$1" r.json; }
used() { echo $(($(stat -c %b "$1") * 512)); } # bytes on the disk, as du counts
field() { dumpe2fs -h "$2" 2>/dev/null | sed -n "s/^$1: *//p"; }
journal_bytes() { # IMAGE
	local n
	n=$(dumpe2fs -h "$1" 2>/dev/null | sed -n 's/^Total journal blocks: *//p')
	echo $((n * $(field "Block size" "$1")))
}
# no_larger FILE BEFORE: by the journal and a block of the host for each run at most
no_larger() {
	local most=$(($2 + $(journal_bytes "$1") + 4096 * $(jq '.after.runs // .before.runs' r.json)))
	[ "$(used "$1")" -le $most ] || { echo "$(used "$1") is more than $most, it was $2"; return 1; }
}
# only_data FILE: free space takes nothing, but for a block of the host at the ends of each free run
only_data() {
	local bs data
	bs=$(field "Block size" "$1")
	data=$((($(field "Block count" "$1") - $(field "Free blocks" "$1")) * bs))
	[ "$(used "$1")" -le $((data + 8192 * ($(jq '(.after // .before).free_runs' r.json) + 1))) ] ||
		{ echo "$(used "$1") for $data bytes of data"; return 1; }
}
full() { cp --sparse=never "$1" "$2"; }

# sparse images: what a run frees becomes holes
for recipe in demo base1k uninit; do
	for args in "" "--mode free" "--budget 1M"; do
		image $recipe x.img
		before=$(used x.img) want=$(digest x.img)
		# shellcheck disable=SC2086
		"$BIN" $args --json=r.json x.img >/dev/null 2>&1
		rc=$?
		is "$recipe $args: exit code 0, or 32 for the budget" \
			test $rc = 0 -o "$rc ${args%% *}" = "32 --budget"
		is "$recipe $args: clean" clean x.img
		is "$recipe $args: same content" equal "$(digest x.img)" "$want"
		is "$recipe $args: it has not grown" no_larger x.img "$before"
		[ $recipe = demo ] &&
			is "demo $args: bytes are reported" j '.work.bytes_discarded > 100000 and .discard_warning == null'
	done
done

image demo x.img
before=$(used x.img)
done_well "--no-discard" x.img --no-discard --json=r.json x.img
is "--no-discard: it has grown by what was moved" \
	test $(($(used x.img) - before)) -gt $(($(jq .work.bytes_moved r.json) * 3 / 4))
is "--no-discard: nothing is reported" j '.work.bytes_discarded == 0'
done_well "another run with --discard" x.img --discard --json=r.json x.img
is "--discard: the holes are made up for" only_data x.img
is "--discard: although nothing is moved" j '.outcome == "nothing_to_do" and .work.bytes_discarded > 0'
done_well "and a third one" x.img x.img
is "the text says nothing of it" sh -c '! grep -q "given back" out'

# an image without holes stays one, but for the asking
image demo orig.img
full orig.img x.img
before=$(used x.img)
done_well "an image without holes" x.img --json=r.json x.img
is "it has none afterwards" equal "$(used x.img)" "$before"
for recipe in demo base4k uninit metabg ext3like features sparse blockmapped escape; do
	image $recipe orig.img
	full orig.img x.img
	done_well "$recipe: --discard" x.img --discard --json=r.json x.img
	is "$recipe: free space takes nothing" only_data x.img
done
grep -q "given back to the device: .* of free space" out
is "the text says how much" equal $? 0

# looking only
full orig.img x.img
before=$(used x.img) want=$(sum x.img)
"$BIN" -n --discard x.img >/dev/null && "$BIN" -c --discard x.img >/dev/null
is "-n and -c discard nothing" equal "$? $(used x.img) $(sum x.img)" "0 $before $want"

# what lies before and behind the file system, not aligned with the host's blocks
image base1k fs.img
size=$(stat -c %s fs.img)
for offset in 1024 4096 1050624; do
	head -c $offset /dev/urandom >head
	head -c 5000 /dev/urandom >tail
	cat head fs.img tail >x.img
	"$BIN" --discard --json=r.json "x.img?offset=$offset" >/dev/null
	is "offset $offset: exit code 0" equal $? 0
	is "offset $offset: what is before it stays" cmp -n $offset x.img head
	is "offset $offset: what is behind it stays" cmp -i $((offset + size)):0 x.img tail
	is "offset $offset: something was given back" j '.work.bytes_discarded > 1000000'
	dd if=x.img of=part.img bs=1024 skip=$((offset / 1024)) count=$((size / 1024)) status=none
	is "offset $offset: clean" clean part.img
	is "offset $offset: same content" equal "$(digest part.img)" "$(digest fs.img)"
done

# files that were dropped for want of room have their half-made copies taken back
if can_mount; then
	image demo orig.img
	want=$(digest orig.img)
	mkdir small
	mount -t tmpfs -o size=$(($(used orig.img) / 1024 + 6000))k none small && mounts+=("$T/small")
	cp --sparse=always orig.img small/x.img
	before=$(used small/x.img)
	"$BIN" --json=r.json small/x.img >/dev/null 2>&1
	is "no room for copies: exit code 8" equal $? 8
	is "no room for copies: files were dropped" j '.dropped_files > 0'
	is "no room for copies: it has not grown" no_larger small/x.img "$before"
	is "no room for copies: clean" clean small/x.img
	is "no room for copies: same content" equal "$(digest small/x.img)" "$want"

	# a run that moves many times what there is room for
	umount small
	"$BIN" -n --mode free --json=r.json orig.img >/dev/null
	room=$(($(journal_bytes orig.img) / 1024 + 1024 + 4 * $(jq .predicted.runs r.json)))
	is "little room: far less than what is to be moved" j ".plan.bytes > 4 * 1024 * $room"
	for args in "" --no-discard; do
		mount -t tmpfs -o size=$(($(used orig.img) / 1024 + room))k none small && mounts+=("$T/small")
		cp --sparse=always orig.img small/x.img
		"$BIN" --mode free --batch-size 1M $args --json=r.json small/x.img >/dev/null 2>&1
		is "little room $args" equal $? "$([ "$args" ] && echo 8 || echo 0)"
		is "little room $args: clean" clean small/x.img
		is "little room $args: same content" equal "$(digest small/x.img)" "$want"
		umount small
	done

	image demo orig.img
	full orig.img x.img
	before=$(used x.img)
	attach x.img
	"$BIN" --json=r.json "$loop" >/dev/null
	is "a device: exit code 0" equal $? 0
	is "a device: nothing is discarded by default" equal "$(used x.img)" "$before"
	"$BIN" --discard --json=r.json "$loop" >/dev/null
	is "a device, --discard: exit code 0" equal $? 0
	detach "$loop"
	is "a device, --discard: free space takes nothing" only_data x.img
	is "a device, --discard: clean" clean x.img
	is "a device, --discard: same content" equal "$(digest x.img)" "$(digest orig.img)"
else
	skip "no mounts, no loop devices"
fi
