# SPDX-License-Identifier: GPL-2.0-or-later
# --memory: too little is refused with the number that is needed, before anything is written; that
# number is enough, and is kept to. MKSCALE: build/mkscale.
. "$(dirname "$0")/lib.sh"
cd "$T" || exit 1
MKSCALE=$(realpath "${MKSCALE:-$top/build/mkscale}")

# wanted ARGS...: the number of the refusal, in MiB
wanted() {
	"$BIN" "$@" >out 2>err
	rc=$?
	sed -n 's/.* is too little for .*; give at least --memory \([0-9]*\)M$/\1/p' err
}

"$MKSCALE" --size 6G --files 100K --runs 300K big.img >/dev/null
before=$(stat -c '%y %b' big.img)
least=$(wanted --threads 1 --memory 14M big.img)
is "too little for the scan: exit code 16" equal $? 0
is "too little for the scan: a number" test "${least:-0}" -gt 14
more=$(wanted --mode layout --threads 1 --memory "$((least))M" big.img)
is "too little for planning: a larger number" test "${more:-0}" -gt "$least"
is "nothing was written" equal "$(stat -c '%y %b' big.img)" "$before"

"$BIN" -n --threads 1 --memory 32M --json=r.json big.img >/dev/null
is "by passes: exit code 0" equal $? 0
is "by passes: several" test "$(jq .plan.passes r.json)" -ge 3
is "by passes: nothing stays fragmented" equal "$(jq .predicted.fragmented_files r.json)" 0
peak=$(($(jq .memory_peak_bytes r.json) >> 20))
if [[ $BIN == */build/* ]]; then
	is "by passes: 32M are kept to: $peak MiB" test $peak -le 35
else
	skip "by passes: sanitizers take memory of their own"
fi
"$BIN" -n --json=r.json big.img >/dev/null
is "without --memory: exit code 0" equal $? 0
is "without --memory: all files at once" equal "$(jq .plan.passes r.json)" 1
rm big.img

image blockmapped orig.img
want=$(sum orig.img)
enough=$(wanted -n --threads 1 --memory 14M orig.img)
"$BIN" -n --threads 1 --memory "${enough:-14}M" orig.img >/dev/null
is "a small image, little memory" equal $? 0
is "a small image: nothing was written" equal "$(sum orig.img)" "$want"

"$MKSCALE" --size 512M --files 12K --runs 36K x.img >/dev/null
is "the image is clean" clean x.img

# by passes, written to
cp --sparse=always x.img y.img
done_well "by passes" y.img y.img -q --no-discard --threads 1 --memory 16M --json=r.json
is "by passes: several" test "$(jq .plan.passes r.json)" -ge 3
is "by passes: nothing stays fragmented" equal "$(jq .after.fragmented_files r.json)" 0
is "by passes: that is true" equal "$(fragmented y.img)" 0
is "by passes: it was read from the disk" equal \
	"$(jq -c .after r.json)" "$("$BIN" -c --json y.img 2>/dev/null | jq -c .before)"
"$BIN" -q --no-discard --threads 1 --memory 16M --json=r.json y.img
is "by passes: another run has nothing to do" equal "$(jq -r .outcome r.json)" nothing_to_do
rm y.img
"$BIN" -c --threads 1 --memory 16M x.img >out 2>err
is "-c by passes: exit code 0" equal $? 0
is "-c by passes: it says so" grep -q '^by passes: [0-9]* parts' out
is "-c by passes: a recommendation" grep -q '^recommended: --mode files; ' out
"$BIN" -n --dump-plan --threads 1 --memory 16M x.img >plan1
"$BIN" -n --dump-plan --threads 3 --memory 21M x.img >plan2
"$BIN" -n --dump-plan --threads 1 --memory 21M x.img >plan3
is "-n by passes: a plan for each" test "$(grep -c '^plan 1$' plan1)" -ge 3
is "-n by passes: the same for any number of threads" cmp plan2 plan3

# one file of many takes no more at the end than what it touched
"$BIN" -q --no-discard --path /t0/d0/f0 --path /t0/d0/f1 --path /t0/d0/f2 --path /t0/d0/f3 x.img
is "--path: exit code 0" equal $? 0
is "--path: clean" clean x.img
