# SPDX-License-Identifier: GPL-2.0-or-later
# The fleet of docs/recipes.md: 50 images, two of them broken, one stopped in the middle of its run;
# the whole interrupted, and resumed.
. "$(dirname "$0")/lib.sh"
. "$here/recipes.sh"
cd "$T" || exit 1
recipe "A fleet" parallel jq || exit 0
block 2 "A fleet" >table.sh

mkdir images
i=0
for r in holes xattr symlinks dirs base1k; do "$MKIMAGE" list | grep -q "^$r " && kinds+=" $r"; done
for r in ${kinds:-base4k}; do "$MKIMAGE" "$r" "kind-$r" || exit 99; done
while [ $i -lt 50 ]; do
	for k in kind-*; do
		i=$((i + 1))
		[ $i -gt 50 ] || cp --sparse=always "$k" "images/$(printf %02d $i).img"
	done
done
want=$(for f in images/*.img; do digest "$f"; done)
head -c 1M /dev/urandom >images/17.img # no file system
echo 'ssv state 0' | dbg images/33.img # not clean
broken="17 33"
sums=$(sha256sum images/17.img images/33.img)
# The run of one image gets a SIGTERM of its own, at its first line of progress; the last ones don't
# begin before all is interrupted.
rm bin/scaledefrag-offline
{
	echo '#!/bin/bash'
	declare -f signal_after
	cat <<'W'
case "$*" in
*images/01.img) signal_after 1 TERM "$@" ;;
*images/4[5-9].img | *images/50.img) while :; do sleep 0.1; done ;;
*) exec "$BIN" "$@" ;;
esac
W
} >bin/scaledefrag-offline
chmod +x bin/scaledefrag-offline
export BIN

# Interrupted: parallel stops starting jobs at the first SIGTERM, and ends what runs at the second.
sh recipe.sh >out 2>err &
pid=$!
children+=($pid)
until [ "$(cat jobs.tsv 2>/dev/null | wc -l)" -gt 12 ] && grep -q '01.img$' jobs.tsv; do
	kill -0 $pid 2>/dev/null || break
	sleep 0.02
done
p=$(pgrep -P $pid -x parallel || pgrep -P $pid perl)
kill -TERM $p 2>/dev/null
kill -TERM $p 2>/dev/null
wait $pid
is "interrupted: ends with a code" test $? -ne 0
first=$(($(wc -l <jobs.tsv) - 1))
is "interrupted: some are done, some not ($first of 50 were run)" test $first -ge 10 -a $first -lt 50
cp jobs.tsv first.tsv
is "the stopped one: a job that failed" equal "$(awk '$NF == "images/01.img" { print $7 }' first.tsv)" 32
is "the stopped one: its report" equal "$(jq -r '.outcome, .exit_code' reports/01.json | tr '\n' ' ')" "stopped 32 "
ln -sf "$BIN" bin/scaledefrag-offline
ended=0
for f in images/*.img; do
	[[ " $broken " == *" $(basename "$f" .img) "* ]] && continue
	e2fsck -fn "$f" >fsck.out 2>&1 || [ "$(grep -c 'recovery' fsck.out)" -gt 0 ] || ended=1
done
is "interrupted: every image is whole" equal $ended 0

sh recipe.sh >out 2>err
is "resumed: exit code 2: two jobs failed" equal $? 2
is "resumed: what was done is not run again" sh -c "
	awk 'NR > 1 && \$7 == 0 { print \$NF }' first.tsv | sort >done.txt
	head -\$(wc -l <first.tsv) jobs.tsv | cmp - first.tsv &&
	tail -n +\$((\$(wc -l <first.tsv) + 1)) jobs.tsv | awk '{ print \$NF }' | sort |
		comm -12 - done.txt | { ! grep .; }"
is "resumed: the stopped one is done" equal "$(jq -r .outcome reports/01.json)" done
is "50 reports" equal "$(find reports -name '*.json' | wc -l)" 50

is "the table" sh table.sh
is "the table: 50 images, and two lines more" equal "$(wc -l <fleet.tsv)" 52
is "the table: the broken ones first, by name, with the reason" \
	sh -c "awk -F'\t' 'NR == 2 && \$1 \$3 \$7 ~ /^17.img16.*no ext4/ || NR == 3 && \$1 \$3 \$7 ~ /^33.img4.*e2fsck/ { n++ }
		END { exit n != 2 }' fleet.tsv"
is "the table: nothing stays fragmented elsewhere" \
	sh -c "awk -F'\t' 'NR > 3 && NR < 52 && (\$3 != 0 || \$5 != 0) { exit 1 }' fleet.tsv"
is "the table: sums" sh -c "tail -1 fleet.tsv | grep -q '^50 images	48 done		[1-9][0-9]*	0	'"
head -5 fleet.tsv | sed 's/^/# /'
tail -1 fleet.tsv | sed 's/^/# /'

is "the broken images are as they were" equal "$(sha256sum images/17.img images/33.img)" "$sums"
n=0 bad=""
while read -r w; do
	n=$((n + 1))
	f=images/$(printf %02d $n).img
	[[ " $broken " == *" $(basename "$f" .img) "* ]] && continue
	[ "$(digest "$f")" = "$w" ] && clean "$f" >/dev/null 2>&1 || bad+=" $f"
done <<<"$want"
is "the others are clean, their content as before" equal "$bad" ""
runs=$(wc -l <jobs.tsv)
sh recipe.sh >out 2>err
is "once more: only the broken ones are run" equal "$(tail -n +$((runs + 1)) jobs.tsv |
	awk '{ print $NF }' | sort | tr '\n' ' ')" "images/17.img images/33.img "
