# SPDX-License-Identifier: GPL-2.0-or-later
# A table: every kind of file and file system, one row each. An image of the kind is made and its
# files are shattered; the program runs. Right is: exit code 0, e2fsck finds nothing, the content's
# digest is as before, no file is fragmented any more, a second run writes nothing, and the kernel
# reads everything and finds no error; where this kernel can't mount it, the table says "bytes".
#
# A row: row NAME SCENARIO MAKER; ROWS=REGEX: only these. The maker leaves x.img, and may set: left
# (fragmented files that have to stay, 0), keep (paths whose blocks have to stay), pre (LD_PRELOAD),
# also (a command: what else must hold). SCENARIO: the one of build/crash that cuts the power in such a
# run; its states are in the line of that name that build/crash prints.
# long
. "$(dirname "$0")/lib.sh"
cd "$T" || exit 1
NOSLEEP=$(dirname "$MKIMAGE")/nosleep.so
mkdir m tree tree/dir
mounts+=("$T/m")
for i in 1 2 3 4 5 6 7 8; do head -c $((i * 7000 + 300)) /dev/urandom >tree/f$i; done
for i in $(seq 150); do ln -s nowhere "tree/dir/a-link-with-a-name-of-some-length-$i"; done
ln -s "$(head -c 200 /dev/zero | tr '\0' s)" tree/slow
ln tree/f3 tree/dir/hard
head -c 400000 /dev/urandom >tree/large

mk() { # MKE2FS-ARGUMENT...
	rm -f x.img
	truncate -s "${size:-12M}" x.img && MKE2FS_SYNC=0 mke2fs -q -F -t "${type:-ext4}" -N 400 \
		-d "${from:-tree}" "$@" x.img 2>/dev/null
}
shatter() { "$MKIMAGE" shatter x.img; }
flags() { # PATH FLAGS (in addition)
	local now
	now=$(debugfs -R "stat $1" x.img 2>/dev/null | sed -n 's/.*Flags: //p')
	echo "sif $1 flags $((now | $2))" | dbg x.img
}
blocks() { for p in $keep; do debugfs -R "blocks $p" x.img 2>/dev/null; done; }
mountable() { cp --sparse=always x.img view.img && mount -o loop,ro view.img m 2>/dev/null && umount m; }
seen() { # the kernel reads all of it, and notes no error
	rm -f view.img && cp --sparse=always x.img view.img # somebody may keep it mounted in a namespace
	mount -o loop,ro view.img m || return 1
	find m -type f -size -1G -links -10 -print0 | xargs -0 -r cat 2>unread >/dev/null
	find m -printf . | wc -c >names
	umount m
	grep -v 'Required key not available' unread && return 2
	equal "$(dumpe2fs -h view.img 2>/dev/null | grep -ci error)" 1 # "Errors behavior", no "FS Error count"
}
run() { LD_PRELOAD=$pre "$BIN" --json=report.json "$@" x.img >/dev/null 2>err; }

result() { # sets result, moved; what fails stays in `why`
	local before first kept
	before=$(digest x.img) kept=$(blocks)
	# one with an MMP block the kernel would wait for
	can_mount && [ -z "$pre" ] && mountable && by=kernel
	run
	rc=$?
	scanned=$(jq .before.files report.json)
	moved="$(jq .before.fragmented_files report.json) -> $(jq .after.fragmented_files report.json)"
	equal "$rc" 0 && clean x.img >fsck && equal "$(digest x.img)" "$before" &&
		! grep -E 'could be (shorter|narrower)' fsck && equal "$(blocks)" "$kept" &&
		equal "$(jq .after.fragmented_files report.json)" "$left" &&
		jq -e '.before.fragmented_files > 0' report.json &&
		{ $also || { echo "$also fails"; false; }; } || return 1
	first=$(sum x.img)
	run && equal "$(jq -r .outcome report.json)" nothing_to_do && equal "$(sum x.img)" "$first" || return 1
	[ $by = bytes ] || seen || return 1
	result=done
}

row() { # NAME SCENARIO MAKER
	[[ $1 =~ ${ROWS:-.} ]] || return 0
	local left=0 keep="" pre="" also=true result=FAILED scanned=- moved=- by=bytes rc=0
	if ! "$3" >make.out 2>&1; then
		skip "$1: cannot be made here"
		sed 's/^/# /' make.out | tail -5
		return
	fi
	grep -q "\.name = \"$2\"" "$top/tests/crash/scenarios.c" || not_ok "$1: there is no scenario $2"
	if result >why 2>&1; then ok "$1"; else
		not_ok "$1 (exit code $rc)"
		cat why err fsck 2>/dev/null | sed 's/^/# /' | head -20
	fi
	printf '| %-44s | %5s | %9s | %-8s | %-8s | %s\n' "$1" "$scanned" "$moved" "$by" "$2" "$result"
}

# ---- makers ----
plain4k() { mk -b 4096 && shatter; }
blockmapped() { type=ext3 mk -b 1024 && shatter; }
upgraded() {
	type=ext3 mk -b 1024 && tune2fs -O extents,uninit_bg,dir_index x.img && { e2fsck -fy x.img || :; } &&
		printf 'write tree/large new\nwrite tree/f8 new8\n' | dbg x.img && shatter
}
depth() { debugfs -R "ex $1" x.img 2>/dev/null | sed -n 's|^ *0/ *\([0-9]*\) .*|\1|p' | head -1; }
deep() {
	mkdir -p big && head -c 8000000 /dev/urandom >big/deep && cp tree/f* big
	from=big size=32M mk -b 1024 && shatter && equal "$(depth deep)" 2
}
deepest() { # e2fsck -fn finds them right, but wider, or deeper, than they have to be
	"$MKIMAGE" deepest x.img && equal "$(depth full) $(depth holes) $(depth chain)" "5 5 5" &&
		equal "$(clean x.img | grep -Ec 'could be (shorter|narrower)')" 3
}
deepest_bare() { "$MKIMAGE" deepestbare x.img && equal "$(depth full)" 5; }
sparse() {
	for at in 0 7 1000 77777 3000000000 4294967000; do
		head -c 90000 /dev/urandom | dd of=sparse bs=4k seek=$at conv=notrunc status=none
	done
	truncate -s 17592186040320 sparse
	mk -b 4096 && shatter && echo 'write sparse sparse' | dbg x.img # into shattered free space
}
unwritten() { "$MKIMAGE" sparse x.img; }
ea_inodes() {
	mk -b 1024 -O ea_inode && head -c 50000 /dev/urandom >value && head -c 700 /dev/urandom >small &&
		printf 'ea_set -f value f1 user.large\nea_set -f value f2 user.large\nea_set -f small f3 user.block\n' |
		dbg x.img
	e2fsck -fy x.img # debugfs counts wrongly
	shatter
}
encrypted() {
	local made=1
	can_mount && mk -b 4096 -O encrypt && mount -o loop x.img m && { python3 - m <<'P'
import fcntl, os, struct, sys
top = sys.argv[1]
d = os.path.join(top, 'secret'); os.mkdir(d)
f = os.open(top, os.O_RDONLY)
key = bytearray(struct.pack('=II32s I I 8I', 2, 0, b'', 64, 0, *[0] * 8) + os.urandom(64))
fcntl.ioctl(f, 0xc0506617, key)  # FS_IOC_ADD_ENCRYPTION_KEY
ident = bytes(key[8:24])
g = os.open(d, os.O_RDONLY)
fcntl.ioctl(g, 0x800c6613, struct.pack('=BBBB4s16s', 2, 1, 4, 3, b'', ident))
for i in range(6):
    open(os.path.join(d, f'file{i}'), 'wb').write(os.urandom(9000 * (i + 1)))
os.symlink('file1', os.path.join(d, 'link'))
P
	made=$?; umount m; }
	[ "$made" = 0 ] && shatter
}
casefold() {
	mk -b 1024 -O casefold -E encoding=utf8 && flags dir 0x40000000 && clean x.img && shatter
}
verity() { # with a tree of hashes beyond the end
	mk -b 4096 -O verity && printf 'fallocate f5 20 24\nfallocate f6 64 70\n' | dbg x.img
	flags f5 0x100000 && flags f6 0x100000 && clean x.img && shatter
}
owners() {
	for i in 1 2 3 4 5 6 7 8; do echo "sif f$i uid $((i % 3 * 70000))"; echo "sif f$i gid $i"; done
	echo "sif large uid 1000"
}
quota() {
	mk -b 1024 -O quota,project -E quotatype=usrquota:grpquota:prjquota && owners | dbg x.img &&
		shatter && clean x.img && debugfs -R "list_quota user" x.img >usage
	also=usage_changed
}
quota_mapped() { # as many blocks as before
	type=ext2 mk -b 1024 -O quota,project -E quotatype=usrquota:grpquota:prjquota && owners | dbg x.img &&
		shatter && clean x.img && debugfs -R "list_quota user" x.img >usage
	also=usage_same
}
usage_now() { debugfs -R "list_quota user" x.img 2>/dev/null >usage.now && grep -q '[0-9]' usage && grep -q '[0-9]' usage.now; }
usage_same() { usage_now && cmp usage usage.now; }
usage_changed() { usage_now && ! cmp -s usage usage.now; } # e2fsck: it is right
# The same usage in files that can be seen; e2fsck does not look at them. What they should say after
# the run is what e2fsck makes of it when the feature is there.
visible_quota() {
	mk -b 1024 -O quota -E quotatype=usrquota:grpquota && owners | dbg x.img && shatter
	printf 'dump <3> q.user\ndump <4> q.group\n' | debugfs -f - x.img && tune2fs -O ^quota x.img &&
		printf 'write q.user aquota.user\nwrite q.group aquota.group\n' | dbg x.img && clean x.img &&
		! shatter 2>/dev/null || return 1
	keep="aquota.user aquota.group" also=usage_right
}
usage_right() {
	cp x.img y.img
	printf 'dump aquota.user q.user\ndump aquota.group q.group\nrm aquota.user\nrm aquota.group\n' | dbg y.img
	tune2fs -O quota -Q usrquota,grpquota y.img >/dev/null 2>&1 # counts anew
	for t in user group; do
		python3 - q.$t <(debugfs -R "list_quota $t" y.img 2>/dev/null) <<'P' || return 1
import struct, sys
data = open(sys.argv[1], 'rb').read()
have = {}
def tree(block, level, ident):
    for i, below in enumerate(struct.unpack_from('<256I', data, block * 1024)):
        if not below: continue
        if level < 3: tree(below, level + 1, ident << 8 | i); continue
        for at in range(below * 1024 + 16, below * 1024 + 1024 - 71, 72):
            who, space = struct.unpack_from('<I44xQ', data, at)
            if who == (ident << 8 | i) and any(data[at:at + 72]): have[who] = space
tree(1, 0, 0)
want = {int(w[0]): int(w[1]) for w in map(str.split, open(sys.argv[2])) if w and w[0].isdigit()}
# the quota files themselves are root's in one of the two
have.pop(0); want.pop(0)
if have != want or not want: sys.exit(f'usage is {have}, should be {want}')
P
	done
}
htree() { # 100,000 names
	local made=1
	can_mount && from=$T/few size=40M mk -b 4096 -O dir_nlink && mount -o loop x.img m && { python3 - m <<'P'
import os, sys
os.chdir(sys.argv[1]); os.mkdir('many'); os.chdir('many')
for i in range(100000):
    if i % 50000 == 0: open(f'file-{i}', 'w').close(); first = f'file-{i}'
    else: os.link(first, f'name-{i}')
P
	made=$?; umount m; }
	also=many
	[ "$made" = 0 ] && shatter
}
many() { equal "$(echo 'ls many' | debugfs -f - x.img 2>/dev/null | grep -o -E '(name|file)-[0-9]+' | sort -u | wc -l)" 100000; }
immutable() { mk -b 1024 && flags f4 0x10 && flags f5 0x20 && flags large 0x30 && shatter; }
orphans() { mk -b 1024 -O orphan_file,fast_commit && shatter; }
mmp() { pre=$NOSLEEP && [ -e "$NOSLEEP" ] && LD_PRELOAD=$NOSLEEP mk -b 1024 -O mmp && shatter; }
metabg() { mk -b 1024 -O meta_bg,^resize_inode,sparse_super2 && shatter; }
resize() { size=20M mk -b 1024 -O resize_inode && shatter; }
uninit() { size=40M mk -b 1024 -O ^metadata_csum,uninit_bg && dumpe2fs x.img | grep BLOCK_UNINIT && shatter; }
huge_blocks() { size=160M mk -b 65536 && shatter; }
rev0() { rm -f x.img && truncate -s 8M x.img && mke2fs -q -F -r 0 -b 1024 x.img && echo 'write tree/large large' | dbg x.img && shatter; }
boot() {
	cp -a tree boot && mkdir -p boot/boot/extlinux boot/boot/grub/i386-pc &&
		cp tree/f5 boot/boot/extlinux/ldlinux.sys && cp tree/f6 boot/boot/map && cp tree/f7 boot/boot/vmlinuz &&
		cp tree/f4 boot/bootmap && cp tree/f8 boot/boot/grub/i386-pc/core.img
	from=boot mk -b 1024 && shatter
	if can_mount; then # inode 5: the boot loader's
		mount -o loop x.img m && python3 -c 'import fcntl, os
fcntl.ioctl(os.open("m/f3", os.O_RDWR), 0x6611)'
		umount m
	fi
	# /bootmap and /boot/map list what lies beside them
	keep="boot/extlinux/ldlinux.sys boot/boot/extlinux/ldlinux.sys boot/map boot/vmlinuz bootmap boot/grub/i386-pc/core.img <5> f1 large"
}
swap_files() { # shattered, the second one with a hibernated system
	cp -a tree with && python3 - <<'P'
import os
for name, words, mode in ('swap', b'SWAPSPACE2', 0o600), ('asleep', b'S1SUSPEND\0', 0o644):
    with open(f'with/{name}', 'wb') as f: f.write(bytes(4086) + words + os.urandom((1 << 20) - 4000))
    os.chmod(f'with/{name}', mode)
P
	from=with mk -b 4096 && printf 'sif swap uid 0\nsif asleep uid 0\n' | dbg x.img && shatter &&
		keep=asleep also=resume_offset
}
swap_mapped() { # pages of 64 KiB, so behind the first indirect block
	cp -a tree mapped && { head -c 65526 /dev/zero && printf 'S1SUSPEND\0' && head -c 1000000 /dev/urandom; } >mapped/asleep &&
		chmod 600 mapped/asleep && from=mapped type=ext3 mk -b 4096 && shatter && keep=asleep
}
resume_offset() { # once in one run, it stays
	equal "$(jq .left_alone.swap report.json) $(jq .left_alone.hibernated report.json)" "0 1" &&
		equal "$(jq -r '.moved_swap[] | "\(.path) \(.resume_offset)"' report.json)" \
			"/swap $(debugfs -R 'blocks swap' x.img 2>/dev/null | awk '{ print $1 }')" &&
		equal "$("$BIN" -n --mode shrink --json x.img 2>/dev/null | jq .left_alone.swap)" 1
}
mkdir few

printf '| %-44s | %5s | %9s | %-8s | %-8s | %s\n' kind files fragm. judge crash result
row "extents, 4 KiB blocks, hard links" base4k plain4k
row "block-mapped (ext3)" ext3 blockmapped
row "ext3 made ext4" upgraded upgraded
row "deep trees (1 KiB blocks)" shrink deep
row "trees of depth 5" deepest deepest
row "trees of depth 5, no journal" deepestbare deepest_bare
row "a sparse file of 16 TiB" sparse sparse
row "unwritten extents, blocks past the end" sparse unwritten
row "xattrs in blocks and in inodes of their own" features ea_inodes
row "encrypted" base4k encrypted
row "casefolded directory" dirs casefold
row "verity" sparse verity
row "quota: users, groups, projects" quota quota
row "quota: visible files" quota visible_quota
row "quota, block-mapped, no journal" quotabare quota_mapped
row "directory of 100,000 names" dirs htree
row "immutable, append-only" base1k immutable
row "orphan_file, fast_commit" features orphans
row "multi-mount protection" mmp mmp
row "meta_bg, sparse_super2" metabg metabg
row "resize_inode" base1k resize
row "uninit_bg" uninit uninit
row "64 KiB blocks" base4k huge_blocks
row "revision 0, no journal" ext2 rev0
row "swap files" base4k swap_files
row "swap file, block-mapped, 64 KiB pages" ext3 swap_mapped
row "boot code's files" base1k boot

# What makes the images: a row that can't be made is skipped, so this is looked at here.
mk -b 1024 -O quota -E quotatype=usrquota && owners | dbg x.img
is "mkimage shatter" shatter
is "mkimage shatter: quotas are counted anew" clean x.img
echo 'write tree/f1 aquota.user' | dbg x.img
before=$(sum x.img)
is "mkimage shatter: refused with quotas that nothing counts" sh -c '! "$0" shatter x.img' "$MKIMAGE"
is "mkimage shatter: then the image is as it was" equal "$(sum x.img)" "$before"
