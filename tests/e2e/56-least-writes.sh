# SPDX-License-Identifier: GPL-2.0-or-later
# --budget, --time-limit, --min-extent, --min-runs; gain and files that got worse in the report.
. "$(dirname "$0")/lib.sh"
cd "$T" || exit 1

j() { jq -e "$1" r.json; }

for recipe in demo full; do
	image $recipe x.img
	want=$(digest x.img)
	"$BIN" --json -n x.img >r.json
	all=$(jq .plan.bytes r.json)
	budget=$((all / 3))
	for i in $(seq 1 40); do
		"$BIN" -n --json --budget $budget x.img >n.json
		"$BIN" --json --budget $budget x.img >r.json
		rc=$?
		j ".work.bytes_moved <= $budget and .worse == 0" >/dev/null ||
			not_ok "$recipe, run $i: the budget of $budget bytes"
		[ "$(jq -c '[.plan.bytes, .plan.left_out_bytes, .predicted.runs]' n.json)" = \
			"$(jq -c '[.plan.bytes, .plan.left_out_bytes, .predicted.runs]' r.json)" ] ||
			not_ok "$recipe, run $i: -n says something else"
		j '.after == null or (.after.runs == .predicted.runs and .after.free_runs == .predicted.free_runs)' >/dev/null ||
			not_ok "$recipe, run $i: not as predicted"
		clean x.img >/dev/null 2>&1 || not_ok "$recipe, run $i: not clean"
		[ $rc = 32 ] && j '.work.bytes_moved > 0' >/dev/null || break
		j '.outcome == "stopped" and .stopped_by == "the budget" and .plan.left_out_batches > 0' >/dev/null ||
			not_ok "$recipe, run $i: the report does not say why it stopped"
	done
	is "$recipe: content is equal" equal "$(digest x.img)" "$want"
	if [ $recipe = demo ]; then
		is "the budget stopped some runs" test "$i" -gt 2
		is "then all is done" equal $rc 0
		is "no file is fragmented" equal "$(fragmented x.img)" 0
	fi
done

image demo x.img
"$BIN" --budget 4K x.img >out
is "a budget too small for anything: exit code 32" equal $? 32
is "what was left out is said" grep -q '^left out for the budget: [0-9]' out
is "and that it is too small" grep -q '^nothing was written: the budget is too small' out
is "the files are listed as left for another run" grep -q 'would do: left for another run' out
image demo y.img
is "nothing is written" equal "$(sum x.img)" "$(sum y.img)"
done_well "a budget that is enough" x.img --budget 1T --json=r.json x.img
is "gain per byte" j '.work.excess_runs_removed_per_mib > 1 and .plan.excess_runs_removed_per_mib > 1'
is "no file is worse" j '.worse == 0 and .stopped_by == null and .plan.left_out_batches == 0'

# The run waits for a reader of its report while the time goes by. It ignores SIGXFSZ once the alarm
# is set: from there on a second is enough.
mkfifo pipe
env --default-signal=XFSZ "$BIN" -q --json=pipe --time-limit 1s y.img 2>err &
pid=$!
ignored() { echo $((0x0$(awk '/^SigIgn/ { print $2 }' /proc/$pid/status) >> ($(kill -l "$1") - 1) & 1)); }
while kill -0 $pid && [ "$(ignored XFSZ)" = 0 ]; do sleep 0.01; done
sleep 1.5
cat pipe >r.json
wait $pid
is "--time-limit: exit code 32" equal $? 32
is "the report says so" j '.outcome == "stopped" and .stopped_by == "the time limit"'
is "one line says so" equal "$(wc -l <err)" 1
image demo x.img
is "it had not begun: nothing is written" equal "$(sum x.img)" "$(sum y.img)"
done_well "time enough" y.img --time-limit 1h y.img

# The time is over while room is made, where files are worse for the time being: its signal, as the
# alarm sends it.
image cycles x.img
want=$(digest x.img)
signal_after 4 ALRM -q --batch-size 1M --time-limit 1h --json=r.json x.img 2>err
is "--time-limit while it writes: exit code 32" equal $? 32
is "it stops where no file is worse" j '.stopped_by == "the time limit" and .worse == 0 and .work.bytes_moved > 0'
is "clean" clean x.img
is "content is equal" equal "$(digest x.img)" "$want"
done_well "another run goes on" x.img -q x.img
is "to the end" equal "$(fragmented x.img)" 0

image demo x.img
done_well "--min-runs" x.img --min-runs 20 --json=r.json --list 1000 x.img
is "files with fewer are left" j '[.still_fragmented[] | select(.runs < 20)] | length > 50'
is "others not" j '[.still_fragmented[] | select(.runs >= 20)] | length == 0'
"$BIN" --json --min-runs 20 x.img >r.json
is "a second run finds nothing" j '.outcome == "nothing_to_do"'

image demo x.img
cp x.img y.img
done_well "--min-extent: long" x.img --min-extent 4K x.img
is "every run is long enough: nothing to do" equal "$(sum x.img)" "$(sum y.img)"
done_well "--min-extent" x.img --min-extent 1T x.img
is "no run is long enough: all is done" equal "$(fragmented x.img)" 0
