# SPDX-License-Identifier: GPL-2.0-or-later
# Sourced by each test. Prints "ok N", "not ok N" and "skip N" lines; tests/e2e/run counts them.
# BIN: the program, MKIMAGE: build/mkimage.
set -u
export LC_ALL=C E2FSCK_CONFIG=/dev/null MKE2FS_SYNC=0
export PATH=$PATH:/usr/sbin:/sbin
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$(cd "$here/../.." && pwd)
BIN=$(realpath "${BIN:-$top/build/scaledefrag-offline}")
MKIMAGE=$(realpath "${MKIMAGE:-$top/build/mkimage}")
tmp=/tmp
[ -w /dev/shm ] && tmp=/dev/shm
T=$(mktemp -d "$tmp/e2e-XXXXXX")
loops=() mounts=() children=()

cleanup() {
	local x
	for x in "${children[@]}"; do kill "$x" 2>/dev/null; wait "$x" 2>/dev/null; done
	for x in "${mounts[@]}"; do umount "$x" 2>/dev/null; done
	for x in "${loops[@]}"; do losetup -d "$x" 2>/dev/null; done
	rm -rf "$T"
}
trap cleanup EXIT

ok() { echo "ok $*"; }
not_ok() { echo "not ok $*"; }
skip() { echo "skip $*"; }

# is NAME COMMAND...: the command succeeds; else its output is shown
is() {
	local name=$1
	shift
	if "$@" >"$T/is.out" 2>&1; then
		ok "$name"
	else
		not_ok "$name"
		sed 's/^/# /' "$T/is.out" | head -20
	fi
}

equal() { [ "$1" = "$2" ] || { echo "'$1' is not '$2'"; return 1; }; }
sum() { sha256sum <"$1"; }
digest() { "$MKIMAGE" digest "$1"; }
image() { "$MKIMAGE" "$1" "$2" || exit 99; }
clean() { e2fsck -fn "$1"; }
root() { [ "$(id -u)" = 0 ]; }
dbg() { debugfs -w -f - "$1" >/dev/null 2>&1; } # commands on standard input

# May we use loop devices and mount?
can_mount() {
	root && [ -e /dev/loop-control ] || return 1
	if [ -z "${can_mount_known:-}" ]; then
		local l m=$T/can_mount.mnt
		mkdir -p "$m"
		can_mount_known=no
		truncate -s 2M "$T/can_mount.img" && mke2fs -q -F "$T/can_mount.img" 2>/dev/null &&
			mount -o loop "$T/can_mount.img" "$m" 2>/dev/null && umount "$m" &&
			can_mount_known=yes
		rm -rf "$T/can_mount.img" "$m"
	fi
	[ "$can_mount_known" = yes ]
}

attach() { # FILE [losetup options]: sets $loop
	loop=$(losetup -f --show "${@:2}" "$1") && loops+=("$loop")
}
detach() { losetup -d "$1"; }

# refused NAME CODE PATTERN FILE ARG...: exit code, one line on standard error that matches, nothing
# on standard output, FILE (may be "") unchanged byte for byte
refused() {
	local name=$1 code=$2 pattern=$3 file=$4 before="" rc
	shift 4
	[ -n "$file" ] && before=$(sum "$file")
	"$BIN" "$@" >"$T/out" 2>"$T/err" </dev/null
	rc=$?
	{
		[[ "$rc" =~ ^($code)$ ]] && equal "$(wc -l <"$T/err")" "${lines:-1}" &&
			grep -Eq -- "$pattern" "$T/err" && equal "$(wc -c <"$T/out")" 0 &&
			{ [ -z "$file" ] || equal "$(sum "$file")" "$before"; }
	} >"$T/why" 2>&1 && ok "$name" && return
	not_ok "$name (exit code $rc, wanted $code; /$pattern/)"
	sed 's/^/# /' "$T/why" "$T/err"
}

# done_well NAME FILE ARG...: exit code 0, e2fsck finds nothing, content equal
done_well() {
	local name=$1 file=$2 before rc
	shift 2
	before=$(digest "$file")
	"$BIN" "$@" >"$T/out" 2>"$T/err" </dev/null
	rc=$?
	{
		equal "$rc" 0 && clean "$file" >"$T/fsck" 2>&1 &&
			! grep -E 'could be (shorter|narrower)' "$T/fsck" &&
			equal "$(digest "$file")" "$before"
	} >"$T/why" 2>&1 && ok "$name" && return
	not_ok "$name (exit code $rc)"
	cat "$T/why" "$T/err" "$T/fsck" | sed 's/^/# /' | head -30
}

# signal_after LINES SIGNAL ARG...: runs the program and sends it the signal when it has written so
# many lines of progress; exit code of the program. The pipe has room for a single line, so the
# signal is there before the line after the next one is out, however slow the machine is.
signal_after() {
	python3 - "$BIN" "$@" <<'P'
import fcntl, os, signal, subprocess, sys
program, lines, name, *args = sys.argv[1:]
# SIGINT of a background job is ignored unless set anew
signal.signal(signal.SIGINT, signal.default_int_handler)
r, w = os.pipe2(os.O_DIRECT)
fcntl.fcntl(w, fcntl.F_SETPIPE_SZ, 4096)
p = subprocess.Popen([program, '-C', str(w), *args], pass_fds=[w])
os.close(w)
seen, sent = 0, False
while text := os.read(r, 65536):
    seen += text.count(b'\n')
    if seen >= int(lines) and not sent:
        p.send_signal(getattr(signal, 'SIG' + name))
        sent = True
sys.exit(p.wait() & 0xff)
P
}

# fragmented FILE: prints how many files are, by the program's own -c
fragmented() { "$BIN" -c --json "$1" 2>/dev/null | jq .before.fragmented_files; }
