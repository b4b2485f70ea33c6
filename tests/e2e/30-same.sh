# SPDX-License-Identifier: GPL-2.0-or-later
# Same input, same bytes: whatever the number of threads and requests. And what must write nothing.
. "$(dirname "$0")/lib.sh"
cd "$T" || exit 1
export SOURCE_DATE_EPOCH=1700000001

for r in churn demo features dirs; do
	image $r a.img
	cp a.img b.img
	cp a.img c.img
	"$BIN" -q --threads 1 a.img
	"$BIN" -q --threads 2 b.img
	"$BIN" -q --threads 7 --queue-depth 3 c.img
	is "$r: --threads 1 and 2 give the same bytes" cmp a.img b.img
	is "$r: --threads 7 --queue-depth 3 too" cmp a.img c.img
done
image churn a.img
cp a.img b.img
"$BIN" -q --batch-size 2M --threads 1 a.img
sleep 1.1
"$BIN" -q --batch-size 2M --threads 2 --memory 64M b.img
is "batches: --threads, --memory and the time of day don't matter" cmp a.img b.img

image demo a.img
before=$(sum a.img)
for o in -c -n "-c -v" "-n -v" "-n --json" "-c --json" "-n --dump-plan" "-c --dump-snapshot"; do
	is "$o works" "$BIN" $o a.img
	is "$o writes nothing" equal "$(sum a.img)" "$before"
done
chmod 444 a.img
is "-n needs no right to write" "$BIN" -n -q a.img
"$BIN" -n --dump-plan --threads 1 a.img >plan1
"$BIN" -n --dump-plan --threads 2 a.img >plan2
is "--dump-plan: the same plan" cmp plan1 plan2
"$BIN" -c --dump-snapshot --threads 1 a.img >snap1
"$BIN" -c --dump-snapshot --threads 2 a.img >snap2
is "--dump-snapshot: the same snapshot" cmp snap1 snap2
chmod 644 a.img
bytes=$("$BIN" -n --json a.img | jq .plan.bytes)
is "-n shows the bytes that a run moves" equal "$("$BIN" --json a.img 2>/dev/null | jq .work.bytes_moved)" "$bytes"
