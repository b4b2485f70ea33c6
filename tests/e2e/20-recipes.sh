# SPDX-License-Identifier: GPL-2.0-or-later
# Every small image: defragmented, clean, content equal, trees minimal; nothing is left to do.
# long
. "$(dirname "$0")/lib.sh"
cd "$T" || exit 1

for r in $("$MKIMAGE" list | cut -d' ' -f1); do
	case $r in
	mmp*) continue ;; # takes its time; 73-kinds.sh has it
	toodeep) continue ;; # is refused: 10-bad-input.sh
	esac
	image "$r" x.img
	done_well "$r" x.img x.img
	before=$(sum x.img)
	"$BIN" --json x.img >again.json 2>/dev/null
	is "$r: a second run plans nothing" equal "$(jq .plan.bytes again.json)" 0
	is "$r: a second run writes nothing" equal "$(sum x.img)" "$before"
	case $r in
	full | clean) ;;
	*) is "$r: no fragmented file is left" equal "$(fragmented x.img)" 0 ;;
	esac
done

# pieces: one file in many transactions
image churn pieces.img
done_well "many batches" pieces.img --batch-size 1M --json=pieces.json pieces.img
is "there were many" test "$(jq .work.transactions pieces.json)" -ge 5
image churn verify.img
done_well "--verify" verify.img --verify verify.img
image churn small.img
done_well "little memory, one request at a time" small.img --memory 16M --queue-depth 1 --threads 1 small.img

# -p replays a log first
image base1k log.img
b=$(debugfs -R 'bmap second 3' log.img 2>/dev/null)
head -c 1024 /dev/zero | tr '\0' Z >block
printf 'jo\njw -b %s block\njc\n' "$b" | dbg log.img
cp log.img replayed.img
e2fsck -p replayed.img >/dev/null 2>&1
is "-p runs e2fsck first" "$BIN" -q -p log.img
is "-p: clean" clean log.img
is "-p: as after the replay" equal "$(digest log.img)" "$(digest replayed.img)"
is "-p on a clean image" "$BIN" -q -p replayed.img

# what is left alone is counted
image features f.img
is "the orphan file is left alone" equal "$("$BIN" -c --json f.img 2>/dev/null | jq .left_alone.orphan_file)" 1

# the image inside a larger file
for at in 1048576 32256; do
	image base4k in.img
	truncate -s $((at + 12 * 1048576 + 512)) outer.img
	dd if=in.img of=outer.img bs=512 seek=$((at / 512)) conv=notrunc status=none
	is "?offset=$at" "$BIN" -q "outer.img?offset=$at"
	dd if=outer.img of=out.img bs=512 skip=$((at / 512)) count=$((12 * 2048)) status=none
	is "?offset=$at: clean" clean out.img
	is "?offset=$at: content" equal "$(digest out.img)" "$(digest in.img)"
	is "?offset=$at: nothing outside" equal "$(head -c $at outer.img | tr -d '\0' | wc -c)" 0
	rm outer.img
done
