# SPDX-License-Identifier: GPL-2.0-or-later
# Every refusal that the source can report has a message, an exit code, and a line in the man page
# that says what to do next.
. "$(dirname "$0")/lib.sh"
cd "$top" || exit 1
page=man/scaledefrag-offline.8

scripts/refusals >"$T/table"
is "the source has refusals" test "$(wc -l <"$T/table")" -gt 150
is "of every exit code" equal "$(cut -f1 "$T/table" | sort -nu | tr '\n' ' ')" "4 8 16 32 "
is "each has a message" awk -F'\t' '$3 == "" || $3 ~ /^run: / { exit 1 }' "$T/table"
is "those of exit code 4 name a command" sh -c '! awk -F"\t" "\$1 == 4 && \$4 !~ /e2fsck -/ && \$3 !~ /^cannot open the file system/" "$0" | grep .' "$T/table"
is "each has its line in the man page, and none is stale" scripts/refusals $page
# would it notice?
sed '/^.It ... was not cleanly unmounted/d' $page >"$T/page"
is "a missing line is noticed" sh -c 'scripts/refusals "$0" | grep -q "exit code 4: no line with advice for: ... was not cleanly unmounted"' "$T/page"
sed 's/^.It ... was not cleanly unmounted/&\nJust so.\n.It was dirty/' $page >"$T/page"
is "advice without the command, and a stale line" equal "$(scripts/refusals "$T/page" | wc -l)" 2
