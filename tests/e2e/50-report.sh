# SPDX-License-Identifier: GPL-2.0-or-later
# The report: JSON that jq reads, in every outcome; text; progress lines; hostile names.
. "$(dirname "$0")/lib.sh"
cd "$T" || exit 1

j() { jq -e "$1" r.json; }
image demo a.img
"$BIN" --json a.img >r.json 2>err
is "one document, schema 1" j '.schema == 1'
is "outcome and exit code" j '.outcome == "done" and .exit_code == 0 and .error == null'
is "fewer runs than before" j '.after.runs < .before.runs and .after.fragmented_files == 0'
is "as predicted" j '.after == (.predicted + {e4defrag: .after.e4defrag}) or (.after.runs == .predicted.runs and .after.free_runs == .predicted.free_runs)'
is "work is counted" j '.work.bytes_moved > 0 and .work.transactions > 0 and .work.flushes >= 4 * .work.transactions'
is "updates were merged" j '.work.metadata_updates > .work.blocks_journaled'
is "nothing on standard error" equal "$(wc -c <err)" 0
"$BIN" --json=file.json a.img >out 2>&1
is "--json=FILE" jq -e '.outcome == "nothing_to_do"' file.json
"$BIN" --json=file.json -c a.img >out 2>&1
is "--json=FILE replaces an earlier report" jq -e '.outcome == "reported"' file.json
printf '{' | dd of=a.img conv=notrunc status=none # a boot sector may begin with anything
refused "--json=IMAGE" 16 'no JSON report' a.img --json=a.img a.img
for o in - /dev/stdout; do
	"$BIN" -c --json=$o a.img >r.json
	is "--json=$o is standard output" j '.schema == 1'
done
mkfifo pipe
(sleep 0.3; exec cat pipe >from_pipe) &
children+=($!)
"$BIN" -q -c --json=pipe a.img
wait $!
is "--json=PIPE waits for its reader" jq -e '.schema == 1' from_pipe
image clean b.img
"$BIN" --json b.img >r.json
is "nothing to do: exit code 0" j '.outcome == "nothing_to_do" and .plan.bytes == 0'
"$BIN" --json no-such.img >r.json 2>err
is "a refusal has a document too" j '.outcome == "failed" and .exit_code == 16 and (.error | length > 0)'
image demo c.img
"$BIN" -n --json c.img >r.json
is "-n: planned" j '.outcome == "planned" and .plan.bytes > 0 and .work.bytes_moved == 0'
"$BIN" -c --json c.img >r.json
is "-c: reported" j '.outcome == "reported" and .before.fragmented_files > 0'
is "-c agrees with e2fsck's count" \
	equal "$(jq .before.runs r.json | wc -l)" 1

"$BIN" -C 5 -q c.img 5>lines
is "-C: lines of four fields" awk 'NF != 4 || $1 + 0 < 1 || $2 > $3 { exit 1 }' lines
is "-C: there are some" test -s lines
image demo d.img
"$BIN" --measure --json d.img >r.json 2>err
is "--measure: fewer requests after than before" \
	j '.measured_after.requests < .measured_before.requests and .measured_after.failed_requests == 0'
cp d.img same.img
"$BIN" -c --measure --json d.img >r.json 2>err
is "-c --measure: once" j '.measured_before.requests > 0 and .measured_after == null'
is "-c --measure writes nothing" cmp d.img same.img
image demo d.img
"$BIN" -q d.img >out 2>&1
is "-q is quiet" equal "$(wc -c <out)" 0
image demo d.img
"$BIN" -v d.img >out 2>&1
is "-v: no bar without a terminal" sh -c '! grep -q "$(printf "\r")" out'
is "text: before and after" grep -q 'before.*after' out
is "--version" sh -c '"$0" --version | grep -q "^scaledefrag-offline [0-9]"' "$BIN"
is "--help" sh -c '"$0" --help | grep -q -- --json' "$BIN"

# hostile names, in the text and in JSON
image base1k e.img
image full f.img
printf 'write /etc/passwd "bad\033[31mname"\n' | dbg f.img
"$BIN" -c -v --list 100 f.img >out 2>&1
"$BIN" -c --json f.img >r.json 2>/dev/null
is "no escape character reaches the terminal" sh -c '! grep -q "$(printf "\033")" out'
is "JSON with hostile names" j '.schema == 1'
if [ -w /dev/full ]; then
	"$BIN" -c e.img >/dev/full 2>err
	is "a report that can't be written: exit code 8" equal $? 8
	is "and one line that says so" equal "$(wc -l <err)" 1
fi
