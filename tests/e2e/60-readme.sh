# SPDX-License-Identifier: GPL-2.0-or-later
# The commands that README.md and the man page show, as they stand there.
. "$(dirname "$0")/lib.sh"
cd "$T" || exit 1
mkdir bin && ln -s "$BIN" bin/scaledefrag-offline
PATH=$T/bin:$PATH

whole_disk() { # FILE: two partitions with the same file system
	python3 - "$1" <<'P'
import struct, sys
data = open('one.img', 'rb').read()
mbr = bytearray(512)
n = len(data) // 512
for i in range(2):
    struct.pack_into('<B3sB3sII', mbr, 446 + 16 * i, 0, b'\0\0\0', 0x83, b'\0\0\0', 2048 + i * n, n)
mbr[510:] = b'\x55\xaa'
open(sys.argv[1], 'wb').write(mbr + b'\0' * (2047 * 512) + data + data)
P
}

n=0
while read -r line; do
	n=$((n + 1))
	line=${line%%#*}
	image base4k one.img
	case $line in
	*--partition*) whole_disk disk.img ;;
	*) cp one.img disk.img ;;
	esac
	case $line in
	*/dev/*)
		if ! can_mount; then
			skip "$line: no loop devices here"
			continue
		fi
		attach disk.img
		is "$line" sh -c "${line//\/dev\/sd??/$loop}"
		detach "$loop"
		;;
	*) is "$line" sh -c "$line" ;;
	esac
done < <(grep -hE '^    (sudo )?scaledefrag-offline ' "$top/README.md")
is "README.md has commands" test $n -gt 3

if command -v mandoc >/dev/null; then
	is "the man page has no errors" mandoc -T lint -W warning "$top/man/scaledefrag-offline.8"
else
	skip "man page: no mandoc"
fi
missing=$("$BIN" --help | grep -oE -- '--[a-z-]+' | sort -u | while read -r o; do
	o=${o#--}
	grep -Eq -- "(Fl|[|]) -${o}" "$top/man/scaledefrag-offline.8" || echo "$o"
done)
is "every option is in the man page" equal "$missing" ""
