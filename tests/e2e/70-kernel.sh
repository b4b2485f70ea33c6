# SPDX-License-Identifier: GPL-2.0-or-later
# Judged by the kernel: real files, aged, moved on a loop device as root and on an image; the tree
# that a mount shows is equal: paths, data, holes, xattrs, modes, owners, times.
# long
. "$(dirname "$0")/lib.sh"
cd "$T" || exit 1
if ! can_mount; then
	skip "kernel's view: no loop mounts here"
	exit 0
fi
mkdir m

tree() { # FILE: all that a mount shows, as text
	mount -o loop,ro,noload "$1" m || return 1
	(
		cd m || exit 1
		find . -printf '%p %y %m %U:%G %s %n %T@ %C@ %l\n' | sort
		find . -type f -print0 | sort -z | xargs -0 -r sha256sum
		find . -print0 | sort -z | xargs -0 -r getfattr -h -d -m - 2>/dev/null
		find . -type f -print0 | sort -z | xargs -0 -r python3 -c '
import os, sys
for p in sys.argv[1:]:
    f = os.open(p, os.O_RDONLY); end = os.fstat(f).st_size; at = 0; holes = []
    while at < end:
        try: d = os.lseek(f, at, os.SEEK_DATA)
        except OSError: break
        at = os.lseek(f, d, os.SEEK_HOLE); holes.append((d, at))
    os.close(f); print(p, holes)'
	)
	umount m
}

extents() { # FILE: extents of all files and directories, as filefrag counts them
	mount -o loop,ro,noload "$1" m || return 1
	find m -type f -size +0 -print0 | xargs -0 -r filefrag 2>/dev/null |
		sed -n 's/.*: \([0-9]*\) extents\{0,1\} found/\1/p' | awk '{ n += $1 } END { print n + 0 }'
	umount m
}

# In one process, as starting thousands takes longer than all the rest.
fill='
import ctypes, os, random
libc = ctypes.CDLL(None)
data = random.Random(1).randbytes
def sync():
    f = os.open(".", os.O_RDONLY); libc.syncfs(f); os.close(f)
for d in "a", "b", "c", "name with\nnewline": os.mkdir(d)
for i in range(1, 301):
    with open("abc"[i % 3] + f"/f{i}", "wb") as f: f.write(data(i * 997 % 40000 + 500))
sync()
for i in range(1, 301, 2): os.remove("abc"[i % 3] + f"/f{i}")
sync()
for i in range(25): # grow in turns
    for k in range(1, 7):
        with open(f"b/grow{k}", "ab") as f: f.write(data(30000)); f.flush(); os.fsync(f)
for i in range(1, 601): open(f"c/an-entry-with-a-rather-long-name-{i}", "w").close()
for i in range(1, 601, 3): os.remove(f"c/an-entry-with-a-rather-long-name-{i}")
'
more='
import os, random
data = random.Random(2).randbytes
for i in range(30):
    for k in 1, 2, 3:
        for name, n in (f"c/new{k}", 9000), (f"b/grow{k}", 3000):
            with open(name, "ab") as f: f.write(data(n)); f.flush(); os.fsync(f)
'
# aged by the kernel: written, removed, rewritten, with everything a file can have
make_aged() { # FILE MKE2FS-ARGUMENTS
	truncate -s 96M "$1" && mke2fs -q -F -t "${type:-ext4}" "${@:2}" "$1" || return 1
	mount -o loop "$1" m || return 1
	(
		cd m || exit 1
		python3 -c "$fill"
		for k in 1 2 3; do
			dd if=/dev/urandom of=c/sparse$k bs=4k count=1 seek=$((k * 50)) conv=notrunc status=none
			dd if=/dev/urandom of=c/sparse$k bs=4k count=3 seek=$((k * 9)) conv=notrunc status=none
			fallocate -n -o 400000 -l 60000 c/sparse$k 2>/dev/null # not on ext3
			setfattr -n user.k -v "$k" c/sparse$k
		done
		for at in 0 20 1000 70000; do # as far as triple indirect blocks of 1 KiB
			dd if=/dev/urandom of=c/far bs=1k count=7 seek=$at conv=notrunc status=none
		done
		ln c/sparse1 a/hard && ln -s ../c/sparse2 a/soft
		ln -s "$(head -c 200 /dev/zero | tr '\0' s)" a/slow
		chattr +i c/sparse3
		touch -d 2001-02-03 a/hard
		mknod a/null c 1 3
	)
	umount m
	e2fsck -fn "$1" >/dev/null 2>&1
}

judge() { # NAME IMAGE: run on a loop device, compare
	local name=$1 img=$2
	tree "$img" >before.txt && e0=$(extents "$img")
	attach "$img" ${sectors:-}
	"$BIN" --json=r.json -q "$loop" >out 2>&1
	is "$name: exit code" equal $? 0
	sync "$loop"
	detach "$loop"
	is "$name: e2fsck" clean "$img"
	tree "$img" >after.txt && e1=$(extents "$img")
	is "$name: the tree is equal" cmp before.txt after.txt
	is "$name: fewer extents ($e0 -> $e1)" test "$e1" -lt "$e0"
	is "$name: no fragmented file is left" equal "$(jq .after.fragmented_files r.json)" 0
	# and the kernel goes on with it
	mount -o loop "$img" m && cp -r m/a m/copy && rm -rf m/b && umount m
	is "$name: clean after the kernel wrote to it" clean "$img"
}

make_aged one.img -b 1024 && judge "1 KiB blocks" one.img
make_aged four.img -b 4096 -O metadata_csum,64bit
cp four.img e4.img
sectors="-b 4096" judge "4 KiB blocks, 4 KiB sectors" four.img
make_aged old.img -b 2048 -O ^metadata_csum,^64bit -I 128 && judge "2 KiB blocks, no checksums" old.img
make_aged inl.img -b 4096 -O inline_data,ea_inode,metadata_csum_seed && judge "inline data, EA inodes" inl.img

# block-mapped; and made ext4, with files of extents beside the old ones
type=ext3 make_aged three.img -b 1024
cp three.img up.img
judge "ext3, 1 KiB blocks" three.img
make_aged bm.img -b 4096 -O ^extent,^64bit,metadata_csum && judge "ext4 without extents" bm.img
tune2fs -O extents,uninit_bg,dir_index,huge_file,dir_nlink,extra_isize up.img >/dev/null 2>&1
e2fsck -fy up.img >/dev/null 2>&1
mount -o loop up.img m
(cd m && python3 -c "$more")
is "both kinds of files" test "$(lsattr m/b/grow1 m/c/new1 | grep -c '^[^ ]*e')" = 1
umount m
judge "ext3 made ext4" up.img

# fewer extents than e4defrag leaves on the same image
mount -o loop e4.img m && e4defrag m >/dev/null 2>&1
umount m
is "fewer extents than e4defrag leaves" test "$(extents four.img)" -le "$(extents e4.img)"
rm -f ./*.img

# real files
src=
for d in /usr/share/perl /usr/share/doc /usr/include; do
	[ -d $d ] && [ "$(du -sm $d | cut -f1)" -lt 60 ] && src=$d && break
done
if [ -n "$src" ]; then
	truncate -s 128M real.img && mke2fs -q -F -t ext4 -b 4096 -d "$src" real.img
	"$MKIMAGE" shatter real.img >/dev/null
	tree real.img >before.txt
	done_well "files of $src" real.img real.img
	tree real.img >after.txt
	is "files of $src: the tree is equal" cmp before.txt after.txt
fi
