# SPDX-License-Identifier: GPL-2.0-or-later
# Limits of the host: no space left under a sparse image, a limit on the size of files.
. "$(dirname "$0")/lib.sh"
cd "$T" || exit 1

image demo orig.img
want=$(digest orig.img)

# A write past the limit is an error like any other, no SIGXFSZ.
size=$(stat -c %s orig.img)
for part in 8 4 2; do
	cp orig.img x.img
	(ulimit -f $((size / part / 1024)); "$BIN" -q x.img) >out 2>err
	rc=$?
	case $rc in
	0) ;;
	8) is "file size limit 1/$part: says why" test -s err ;;
	*) not_ok "file size limit 1/$part: exit code $rc" ;;
	esac
	e2fsck -p x.img >/dev/null 2>&1
	is "file size limit 1/$part: clean" clean x.img
	is "file size limit 1/$part: same content" equal "$(digest x.img)" "$want"
done

# Threads that can't be started: the OpenMP library ends the program.
if (ulimit -v 60000; "$BIN" --version) >/dev/null 2>&1; then
	cp orig.img x.img
	(ulimit -v 60000; "$BIN" -q --threads 16 x.img) >out 2>err
	rc=$?
	is "no memory for threads: exit code 8, or done" test $rc = 8 -o $rc = 0
	is "no memory for threads: says why" test $rc = 0 -o -s err
	e2fsck -p x.img >/dev/null 2>&1
	is "no memory for threads: clean" clean x.img
	is "no memory for threads: same content" equal "$(digest x.img)" "$want"
else
	skip "no memory for threads: the program can't start in so little (sanitizers)"
fi

# Free blocks are holes, and there is no room to fill them all.
sparse() {
	local a
	for a in $(dumpe2fs orig.img 2>/dev/null | sed -n 's/^  Free blocks: //p' | tr -d ,); do
		local from=${a%-*} to=${a#*-}
		fallocate -p -o $((from * bs)) -l $(((to - from + 1) * bs)) "$1" || return 1
	done
}
bs=$(dumpe2fs -h orig.img 2>/dev/null | sed -n 's/^Block size: *//p')
if can_mount && cp orig.img holes.img && sparse holes.img; then
	mkdir small
	for spare in 8 64 256; do
		mount -t tmpfs -o size=$(($(du -k holes.img | cut -f1) + spare))k none small || break
		mounts+=("$T/small")
		cp --sparse=always holes.img small/x.img
		"$BIN" -q small/x.img >out 2>err
		rc=$?
		cp --sparse=always small/x.img x.img
		umount small
		is "$spare KiB left: exit code 8" equal $rc 8
		is "$spare KiB left: says why" grep -Eq "dropped for|No space left" err
		e2fsck -p x.img >/dev/null 2>&1
		is "$spare KiB left: clean" clean x.img
		is "$spare KiB left: same content" equal "$(digest x.img)" "$want"
	done
else
	skip "no space left: no mounts or no holes"
fi
