# SPDX-License-Identifier: GPL-2.0-or-later
# --path, --include, --exclude, --pin: what is not chosen keeps its blocks; what is gets contiguous.
. "$(dirname "$0")/lib.sh"
cd "$T" || exit 1

j() { jq -e "$1" r.json; }
# blocks IMAGE FILE: where its blocks are, runs IMAGE FILE: how many stretches that is
blocks() { debugfs -R "blocks $2" "$1" 2>/dev/null; }
runs() { blocks "$@" | tr ' ' '\n' | awk 'NF { if ($1 != p + 1) n++; p = $1 } END { print n + 0 }'; }
same_place() { # FILE: in x.img as in orig.img
	[ -n "$(blocks orig.img "$1")" ] && equal "$(blocks x.img "$1")" "$(blocks orig.img "$1")"
}
whole() { equal "$(runs x.img "$1")" 1; }
run_on() { # NAME ARG...: on a fresh x.img
	cp orig.img x.img
	done_well "$1" x.img --json=r.json "${@:2}" x.img
}

image demo orig.img
# one file with a second name elsewhere
printf 'ln /user5/message-0005 /user2/linked\nsif /user5/message-0005 links_count 2\n' | dbg orig.img
is "the image with a hard link is clean" clean orig.img
is "it has fragmented files" test "$(fragmented orig.img)" -gt 100

run_on "--path: one file" --path /user0/mailbox
is "it is contiguous" whole /user0/mailbox
is "its neighbour is where it was" same_place /user0/message-0108
is "nothing else was moved" j '.before.files == 1 and .left_alone.out_of_scope > 200'
is "the text says how many were left" sh -c '"$0" -c --path /user0/mailbox x.img | grep -q "left alone: 2[0-9]* outside of the chosen scope"' "$BIN"

run_on "--path: a directory, twice" --path user3/ --path /user4
is "files of the first" whole /user3/message-0045
is "files of the second" whole /user4/message-0028
is "files of another stay" same_place /user1/message-0085

run_on "--path: a file by its other name" --path /user5
is "all its names count" whole /user2/linked

run_on "--include" --include '*-00[0-4]*' --include mailbox
is "a file that matches" whole /user3/message-0045
is "a file that matches the other one" whole /user0/mailbox
is "a file that doesn't" same_place /user2/message-0188

run_on "--path and --include" --path /user3 --include '+(message)-00*'
is "a file for which both hold" whole /user3/message-0045
is "not below the path" same_place /user4/message-0028
is "not of that name" same_place /user3/message-0165

run_on "--exclude: a glob with a slash" --exclude '/user[0-2]'
is "what is below it stays" same_place /user1/message-0085
is "a file with a name there stays" same_place /user5/message-0005
is "others are made contiguous" whole /user4/message-0028

run_on "--pin" --pin '*5'
is "a file that matches stays" same_place /user3/message-0045
is "others don't" whole /user4/message-0028
is "the report counts them" j '.left_alone.pinned > 10 and .left_alone.out_of_scope == 0'

# on a full file system what is pinned makes no room
image full orig.img
one=$("$BIN" -c --list 1 --json orig.img | jq -r '.still_fragmented[0].path')
run_on "a full one: all but one pinned" --path "$one"
is "only it may have moved" j '.before.files == 1'

cp orig.img x.img
refused "a path that isn't there" 16 "'/no/such'" x.img --path /no/such x.img
refused "a path below a file" 16 'not in the file system' x.img --path "$one/x" x.img
"$BIN" --include nothing x.img >out 2>&1
is "a glob that matches nothing: nothing to do" equal $? 0
is "and nothing is written" equal "$(sum x.img)" "$(sum orig.img)"
