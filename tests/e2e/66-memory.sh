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
more=$(wanted --threads 1 --memory "$((least))M" big.img)
is "too little for planning: a larger number" test "${more:-0}" -gt "$least"
is "nothing was written" equal "$(stat -c '%y %b' big.img)" "$before"
"$BIN" -n --threads 1 --memory "${more}M" --json=r.json big.img >/dev/null 2>err
is "the number is enough: exit code 0" equal $? 0
peak=$(($(jq .memory_peak_bytes r.json) >> 20))
if [[ $BIN == */build/* ]]; then
	is "it is kept to: $peak MiB of $more" test $peak -le $((more * 11 / 10))
else
	skip "it is kept to: sanitizers take memory of their own"
fi
"$BIN" -n --json=r.json big.img >/dev/null
is "without --memory: exit code 0" equal $? 0
rm big.img

image blockmapped orig.img
want=$(sum orig.img)
"$BIN" -n --threads 1 --memory 14M orig.img >/dev/null
is "a small image, little memory" equal $? 0
is "a small image: nothing was written" equal "$(sum orig.img)" "$want"

"$MKSCALE" --size 512M --files 12K --runs 36K x.img >/dev/null
is "the image is clean" clean x.img
# one file of many takes no more at the end than what it touched
"$BIN" -q --no-discard --path /t0/d0/f0 --path /t0/d0/f1 --path /t0/d0/f2 --path /t0/d0/f3 x.img
is "--path: exit code 0" equal $? 0
is "--path: clean" clean x.img
