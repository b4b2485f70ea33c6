# SPDX-License-Identifier: GPL-2.0-or-later
# What -c says: free runs by size, figures of each mode, the recommended one.
. "$(dirname "$0")/lib.sh"
cd "$T" || exit 1

j() { jq -e "$1" r.json; }
image demo a.img
before=$(sum a.img)
"$BIN" -c a.img >out
is "-c writes nothing" equal "$(sum a.img)" "$before"
is "a table of modes" equal "$(grep -cE '^(\(now\)|files|free|shrink) +.*iB' out)" 4
is "and a recommendation" grep -q '^recommended: --mode ' out
is "free runs by size" grep -qE '^ +4K to 8K +[0-9,]+ +[0-9,]+ +[0-9.]+ %' out
is "lines of the tables fit 80 columns" sh -c 'sed -n "/^free runs by/,/^shrink/p" out | awk "length > 80 { exit 1 }"'
sed -nE '/^free runs by size/,/^mode/s/^ .* to +[0-9]+[A-Z]? +([0-9,]+) +([0-9,]+) .*/\1 \2/p' out | tr -d , >ours
e2freefrag a.img | sed -nE 's/^.*-  : +([0-9]+) +([0-9]+) .*/\1 \2/p' >theirs
is "the same as e2freefrag counts" cmp ours theirs
is "there are some" test -s ours
"$BIN" -c --json a.img >r.json
is "JSON has them" j '[.modes[].mode] == ["files", "free", "shrink"]'
is "the recommended one is among them" j '.recommended_mode as $m | any(.modes[]; .mode == $m)'
is "sizes add up" j '([.free_runs_by_size[].runs] | add) == .before.free_runs and ([.free_runs_by_size[].blocks] | add) == .before.free_blocks'

# the figures are those of a run
for m in files free shrink; do
	jq -c ".modes[] | select(.mode == \"$m\")" r.json >said
	cp a.img b.img
	"$BIN" --json --mode $m b.img >run.json
	jq -c '{b: .bytes, f: .predicted.fragmented_files, r: .predicted.free_runs, l: .predicted.longest_free_run}' said >x
	jq -c '{b: .work.bytes_moved, f: .after.fragmented_files, r: .after.free_runs, l: .after.longest_free_run}' run.json >y
	is "--mode $m does what -c said" cmp x y
	is "--mode $m: free runs by size, after" jq -e '([.free_runs_by_size_after[].runs] | add) == .after.free_runs' run.json
	"$BIN" -c --json --mode $m b.img >r2.json
	is "--mode $m: then no more of it" jq -e ".modes[] | select(.mode == \"$m\") | .bytes == 0" r2.json
	is "--mode $m: files end where it said" equal "$(jq '.modes[] | select(.mode == "'$m'").files_end_block' r2.json)" "$(jq .files_end_block said)"
done
is "after --mode shrink files end lower" jq -e -s '.[0].files_end_block < .[1].files_end_block' said <("$BIN" -c --json a.img | jq '.modes[0]')
is "after --mode files, files is not recommended" sh -c '"$0" --list 0 -q a.img; test "$("$0" -c --json a.img | jq -r .recommended_mode)" != files' "$BIN"
image clean c.img
"$BIN" -c c.img >out
is "nothing to gain: none is recommended" grep -q '^recommended: none' out
"$BIN" -c --json c.img >r.json
is "and null in JSON" j '.recommended_mode == null'
"$BIN" -c -q c.img >out 2>&1
is "-q: nothing" equal "$(wc -c <out)" 0

# reading the order of all files takes time: layout has a line when it is asked for
image demo d.img
is "layout isn't looked at unasked" sh -c '"$0" -c --json d.img | jq -e "[.modes[].name?, .modes[].mode?] | index(\"layout\") == null"' "$BIN"
"$BIN" -c --mode layout --json d.img >r.json
is "--mode layout: its line" j '.modes[] | select(.mode == "layout") | .bytes > 0 and .predicted.fragmented_files == 0'
