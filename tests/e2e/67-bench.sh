# SPDX-License-Identifier: GPL-2.0-or-later
# The programs of the benchmarks do what they say, on a small image; nothing is timed.
# alone: it copies the mounts of all others into a namespace of its own.
. "$(dirname "$0")/lib.sh"
cd "$T" || exit 1
build=$(dirname "$MKIMAGE")

image demo x.img
"$BIN" -n --dump-snapshot x.img >snapshot
"$BIN" -n --dump-plan x.img >plan
bytes=$(awk '/^geometry/ {bs = $3} /^move/ && $NF != "u" {n += $3} END {print n * bs}' snapshot plan)
fragments() { # bytes of the files in more than one run
	awk '/^geometry/ {bs = $3}
		/^(file|free)/ {if (runs > 1) n += all; runs = all = end = 0}
		/^ext/ {if ($4 != end) runs++; end = $4 + $3; if ($NF != "u") all += $3}
		END {print n * bs}' snapshot
}

limit() { # KIND GAP: its report, and what it says it wrote
	cp x.img work.img
	"$build/bench-limit" --depth 4 --gap "$2" "$1" snapshot plan work.img >"$1-$2.json"
}
is "bench-limit plan runs" limit plan 0
is "bench-limit plan: all that the plan copies" equal "$(jq .bytes plan-0.json)" "$bytes"
is "bench-limit plan runs with gaps" limit plan 64
is "bench-limit: fewer reads across gaps" \
	test "$(jq .reads plan-64.json)" -lt "$(jq .reads plan-0.json)"
is "bench-limit copy runs" limit copy 0
is "bench-limit copy: all fragmented files" equal "$(jq .bytes copy-0.json)" "$(fragments)"

threads() { "$build/bench-threads" --memory 8 --threads "$1" --depths "$2" "$3" snapshot plan; }
cell() { sed -n 3p | awk -F'|' -v n="$1" '{split($(n + 2), x, "("); print x[2] + 0}'; }
is "bench-threads flash: more requests in flight are faster" \
	test "$(threads 2 1,32 flash | tee flash | cell 2 | cut -d. -f1)" -ge 2
is "bench-threads flash: the same again" equal "$(threads 1 1,32 flash)" "$(threads 1 1,32 flash)"
threads 2 128 seeks >seeks
is "bench-threads seeks: a third of the seek time, or less" \
	awk -F'|' '/mover for disks/ {n++; if ($7 + 0 < 3) bad++} END {exit n != 1 || bad}' seeks

if ! can_mount; then
	skip "scripts/bench: no loop mounts here"
	exit 0
fi
is "scripts/bench runs" "$top/scripts/bench" --runs 1 --images x.img --work "$T/work" --out "$T/out" \
	--methods files,cp,plan-limit
is "scripts/bench: files is what we do" jq -e '.sets[0].methods | .files.after_fragmented == 0 and
	.files.reads > 0 and .files.writes > 0 and .files.peak_mib > 1 and .cp.cold_reads > 0' out/results.json
is "scripts/bench: a table" grep -q '^| cp -a |' out/bench.md
is "scripts/bench: a plot" python3 -c 'import xml.dom.minidom as x; x.parse("out/bench.svg")'
is "scripts/bench: nothing is left behind" equal "$(ls -F work; losetup -a | grep "$T")" "mnt/
new/"
