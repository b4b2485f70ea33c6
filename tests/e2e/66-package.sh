# SPDX-License-Identifier: GPL-2.0-or-later
# What leaves the source tree: make install, make dist, and the static program in an empty root.
# alone: it copies the mounts of all others into a namespace of its own.
. "$(dirname "$0")/lib.sh"
cd "$T" || exit 1
mk() { make -s --no-print-directory -C "$top" "$@"; }

is "make install" mk install DESTDIR="$T/root" PREFIX=/usr
is "the program runs from there" sh -c 'root/usr/sbin/scaledefrag-offline --version'
is "its man page" test -s root/usr/share/man/man8/scaledefrag-offline.8

# An archive is a function of the tree: not of time, umask, or whether git is there.
export SOURCE_DATE_EPOCH=1700000000
archive=$(mk dist) && cp "$top/$archive" a.tar.gz
is "make dist" gzip -t a.tar.gz
(umask 077 && touch "$top/CHANGELOG.md" && mk dist >/dev/null) && cp "$top/$archive" b.tar.gz
is "again, with another umask: the same bytes" cmp a.tar.gz b.tar.gz
tar xzf a.tar.gz
name=$(basename "$archive" .tar.gz)
(cd "$name" && scripts/dist "${name##*-}") >/dev/null && cp "$name/build/$name.tar.gz" c.tar.gz
is "from the unpacked archive: the same bytes" cmp a.tar.gz c.tar.gz
if git -C "$top" rev-parse >/dev/null 2>&1; then
	is "it has what git knows" equal "$(tar tzf a.tar.gz | sed 's,^[^/]*/,,' | sort)" \
		"$(git -C "$top" ls-files | sort)"
else
	skip "archive: no git here"
fi
unset SOURCE_DATE_EPOCH

# An initramfs has /proc, /sys, and what is copied into it.
is "make static" mk static
static=$top/build/scaledefrag-offline-static
is "static: 2 MB at most" test "$(stat -c %s "$static")" -le 2000000
is "static: needs no library" sh -c '! readelf -l "$0" | grep -q INTERP' "$static"
is "static: version" equal "$("$static" -V)" "$("$BIN" -V)"
mkdir -p empty/proc empty/sys && cp "$static" empty/scaledefrag-offline
image demo empty/a.img
before=$(digest empty/a.img)
private=
for u in "unshare -m" "unshare -rm"; do
	$u sh -c 'mount --rbind /proc empty/proc && mount --rbind /sys empty/sys' 2>/dev/null &&
		private=$u && break
done
if [ -n "$private" ]; then
	# shellcheck disable=SC2016
	is "static: in a root with nothing but /proc, /sys and an image" $private sh -ec '
		mount --rbind /proc empty/proc
		mount --rbind /sys empty/sys
		exec chroot empty /scaledefrag-offline /a.img'
	is "static: nothing is fragmented" equal "$(fragmented empty/a.img)" 0
	is "static: clean" clean empty/a.img
	is "static: content equal" equal "$(digest empty/a.img)" "$before"
	# with e2fsck, its libraries, and still without /dev
	image demo empty/a.img && printf 'ssv state 0\n' | dbg empty/a.img
	for f in "$(command -v e2fsck)" $(ldd "$(command -v e2fsck)" | grep -o '/[^ ]*'); do
		install -D "$f" "empty$f"
	done
	# shellcheck disable=SC2016
	is "static: -p, without /dev" $private sh -ec '
		mount --rbind /proc empty/proc
		mount --rbind /sys empty/sys
		exec chroot empty /scaledefrag-offline -p /a.img'
	is "static: -p, content equal" equal "$(digest empty/a.img)" "$before"
else
	skip "static: no private mounts here"
fi
