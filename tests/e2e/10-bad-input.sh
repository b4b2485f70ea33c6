# SPDX-License-Identifier: GPL-2.0-or-later
# Bad input: one line, the right exit code, the image unchanged byte for byte.
. "$(dirname "$0")/lib.sh"
cd "$T" || exit 1

lines=2 # what is wrong, and where help is
refused "no argument" 16 . ""
refused "unknown option" 16 . "" --no-such-option x
lines=1
refused "missing path" 16 'no-such.img' "" no-such.img
mkdir dir
refused "directory" 16 'directory' "" dir
: >empty.img
refused "empty file" 16 . empty.img empty.img
truncate -s 4M zeros.img
refused "zeros" 16 . zeros.img zeros.img
printf 'short' >short.img
refused "five bytes" 16 . short.img short.img
mkfifo fifo
refused "fifo" 16 . "" fifo

if command -v mkfs.xfs >/dev/null; then
	truncate -s 320M xfs.img && mkfs.xfs -q -f xfs.img
	refused "XFS" 16 '[Xx][Ff][Ss]' xfs.img xfs.img
	rm xfs.img
else
	skip "XFS: no mkfs.xfs"
fi
if command -v qemu-img >/dev/null; then
	image base1k raw.img
	qemu-img convert -q -O qcow2 raw.img disk.qcow2
else
	printf 'QFI\373\0\0\0\3' >disk.qcow2 && truncate -s 192K disk.qcow2
fi
refused "qcow2" 16 'qcow2' disk.qcow2 disk.qcow2
truncate -s 2M luks.img && printf 'LUKS\272\276\0\2' | dd of=luks.img conv=notrunc status=none
refused "LUKS" 16 'LUKS' luks.img luks.img
truncate -s 2M swap.img && mkswap swap.img >/dev/null 2>&1
refused "swap" 16 'swap' swap.img swap.img

# What belongs to others, known by its first bytes or, where libblkid wants more of it right, by a
# superblock as the format's documents describe it. No tool of theirs is needed.
cat >foreign.py <<'P'
import struct
MIB = 1 << 20
def crc(data, value, poly):
    for byte in data:
        value ^= byte
        for _ in range(8): value = value >> 1 ^ (poly if value & 1 else 0)
    return value
def image(name, *parts):
    with open(name + '.foreign', 'r+b' if name.startswith('ext4+') else 'wb') as f:
        f.truncate(7 * MIB if name.startswith('ext4+') else 2 * MIB) # floppies are never RAID or LVM
        for at, data in parts:
            f.seek(at)
            f.write(data)
def md(at): # kernel md_p.h, version 1
    sb = struct.pack('<4I16s32s', 0xa92b4efc, 1, 0, 0, bytes(range(16)), b'host:0')
    sb += struct.pack('<QIIQII32x', 1700000000, 1, 0, 1024, 0, 2)
    return at, sb + struct.pack('<QQQ', 2048, 1024, at // 512) + bytes(100)
# btrfs, "On-disk Format": the superblock is at 64 KiB
sb = bytearray(4096)
struct.pack_into('<QQ8sQ', sb, 48, 65536, 0, b'_BHRfS_M', 7)
struct.pack_into('<QQQQIII', sb, 112, MIB, MIB // 2, 6, 1, 4096, 16384, 16384)
struct.pack_into('<I', sb, 0, crc(sb[32:], 0xffffffff, 0x82f63b78) ^ 0xffffffff)
image('btrfs', (65536, sb))
# LVM2, lib/label/label.h: a label in the second sector
label = bytearray(struct.pack('<8sQII8s32sQ', b'LABELONE', 1, 0, 32, b'LVM2 001', b'abcdefgh' * 4, MIB).ljust(512, b'\0'))
struct.pack_into('<I', label, 16, crc(label[20:], 0xf597a6cf, 0xedb88320))
image('lvm2', (512, label))
image('lvm1', (0, struct.pack('<2sHII32x32s', b'HM', 1, 0, 1024, b'abcdefgh' * 4)))
old = struct.pack('<6I', 0xa92b4efc, 0, 90, 0, 0, 0x01020304)
for front, size in ('', 2 * MIB), ('ext4+', 7 * MIB): # a mirror's half begins with what it holds
    image(front + 'md-1.0', md(size - 8192))
    image(front + 'md-0.90', (size - 65536, old))
image('md-1.1', md(0))
image('md-1.2', md(4096))
image('luks1', (0, b'LUKS\xba\xbe\0\1aes'))
image('bitlocker', (0, b'\xeb\x58\x90-FVE-FS-\0\2'), (176, struct.pack('<Q', 8192)), (8192, b'-FVE-FS-\x40\0\2\0'))
image('hibernated', (4086, b'S1SUSPEND\0'))
for name, magic in (('qcow1', b'QFI\xfb\0\0\0\1'), ('qcow2', b'QFI\xfb\0\0\0\3'), ('vmdk', b'KDMV\1'),
                    ('vmdk-esx', b'COWD\1'), ('vmdk-text', b'# Disk DescriptorFile\nversion=1\n'),
                    ('vdi', b'<<< Oracle VM VirtualBox Disk Image >>>\n'.ljust(64, b'\0') + b'\x7f\x10\xda\xbe'),
                    ('vhdx', b'vhdxfile'), ('vhd', b'conectix'), ('qed', b'QED\0'),
                    ('parallels', b'WithoutFreeSpace'), ('parallels-ext', b'WithouFreSpacExt'),
                    ('android', struct.pack('<IHHHHIII', 0xed26ff3a, 1, 0, 28, 12, 4096, 256, 1)),
                    ('android-boot', b'ANDROID!'), ('gzip', b'\x1f\x8b\x08'), ('xz', b'\xfd7zXZ\0'),
                    ('zstd', b'\x28\xb5\x2f\xfd'), ('bzip2', b'BZh9'), ('zip', b'PK\3\4')):
    image(name, (0, magic))
P
image base1k ext4+md-1.0.foreign && cp ext4+md-1.0.foreign ext4+md-0.90.foreign
is "what belongs to others" python3 foreign.py
while read -r name pattern; do
	refused "$name" 16 "$pattern" "$name.foreign" "$name.foreign"
	rm -f "$name.foreign"
done <<'L'
btrfs is btrfs, not ext4: btrfs filesystem defragment
lvm1 LVM physical volume, not ext4: .*lvs
lvm2 LVM physical volume, not ext4: .*lvs
md-0.90 member of a RAID array, not ext4: .*mdadm --assemble
md-1.0 member of a RAID array, not ext4: .*mdadm --assemble
md-1.1 member of a RAID array, not ext4: .*mdadm --assemble
md-1.2 member of a RAID array, not ext4: .*mdadm --assemble
ext4+md-0.90 RAID
ext4+md-1.0 RAID
luks1 LUKS container, not ext4: .*cryptsetup open
bitlocker BitLocker
hibernated swap space with a hibernation image
qcow1 qcow image, not a raw ext4 image: .*nbdfuse.*qemu-nbd
qcow2 qcow image, not a raw ext4 image: .*nbdfuse.*qemu-nbd
vmdk VMDK image.*qemu-img convert
vmdk-esx VMDK image.*qemu-img convert
vmdk-text VMDK descriptor.*qemu-img convert
vdi VDI image.*qemu-img convert
vhdx VHDX image.*qemu-img convert
vhd VHD image.*qemu-img convert
qed QED image.*qemu-img convert
parallels Parallels image.*qemu-img convert
parallels-ext Parallels image.*qemu-img convert
android Android sparse image.*simg2img
android-boot Android boot image
gzip gzip.*unpack
xz xz.*unpack
zstd zstd.*unpack
bzip2 bzip2.*unpack
zip zip.*unpack
L
is "none was left out" sh -c '! ls *.foreign'

image base1k whole.img
python3 - whole.img disk.img <<'P'
import struct, sys
data = open(sys.argv[1], 'rb').read()
mbr = bytearray(512)
def part(i, start, n): struct.pack_into('<B3sB3sII', mbr, 446 + 16 * i, 0, b'\0\0\0', 0x83, b'\0\0\0', start, n)
n = len(data) // 512
part(0, 2048, n)
part(1, 2048 + n, n)
mbr[510:] = b'\x55\xaa'
with open(sys.argv[2], 'wb') as f:
    f.write(mbr + b'\0' * (2048 * 512 - 512) + data + data)
P
refused "whole-disk image" 16 '[Pp]artition' disk.img disk.img
refused "partition that is not there" 16 . disk.img --partition 7 disk.img

image base1k trunc.img && truncate -s 4M trunc.img
refused "truncated image" '(4|16)' . trunc.img trunc.img

image base1k dirty.img
printf 'jo\njw -b 70 /dev/zero\njc\n' | dbg dirty.img
refused "log not empty" 4 'e2fsck' dirty.img dirty.img
image base1k state.img && printf 'ssv state 0\n' | dbg state.img
refused "not cleanly unmounted" 4 'e2fsck' state.img state.img
image base1k err.img && printf 'ssv state 3\nssv error_count 2\n' | dbg err.img
refused "error state" 4 'has found errors in it \(2 counted\); run: e2fsck -f' err.img err.img
image base1k err.img && printf 'ssv state 3\n' | dbg err.img
refused "error state, none counted" 4 'err.img is marked as having errors; run: e2fsck -f' err.img err.img
image base1k orphan.img && printf 'ssv last_orphan 14\n' | dbg orphan.img
refused "orphans" 4 'e2fsck' orphan.img orphan.img

image shrink tree.img
python3 - tree.img <<'P'
import subprocess, sys
out = subprocess.run(['debugfs', '-R', 'ex deep', sys.argv[1]], capture_output=True, text=True).stdout
# a leaf block: the line of level 1 of 2 ends with "physical blocks"
leaf = [l.split() for l in out.splitlines() if l.strip().startswith('1/ 2')][0]
block = int(leaf[leaf.index('-') + 2])
with open(sys.argv[1], 'r+b') as f:
    f.seek(block * 1024 + 40)
    f.write(b'\xff' * 8)
P
refused "corrupt extent tree" 4 'e2fsck' tree.img tree.img
image toodeep six.img
refused "an extent tree of depth 6" 4 'the root of its extent tree is damaged; run: e2fsck -f' six.img six.img
is "as e2fsck makes it, of depth 5 at most" sh -c 'e2fsck -fy six.img; [ $? -le 1 ]'
is "and then" "$BIN" -q six.img
image base1k claim.img
b=$(debugfs -R 'bmap second 3' claim.img 2>/dev/null)
printf 'freeb %s 1\n' "$b" | dbg claim.img
refused "a used block is free in the bitmap" 4 'e2fsck' claim.img claim.img
image base1k leak.img && printf 'setb 5000 1\n' | dbg leak.img
refused "a block is used by nothing" 4 'e2fsck' leak.img leak.img
image base1k twice.img
b=$(debugfs -R 'bmap second 3' twice.img 2>/dev/null)
printf 'set_inode_field /contiguous block[6] 0\nfreei <200>\n' | dbg twice.img
if printf 'sif dir/random block[3] 0x1\n' | dbg twice.img; then :; fi
refused "an inode with a wrong root" 4 'e2fsck' twice.img twice.img

mk() { truncate -s "${size:-8M}" "$1" && mke2fs -q -F -t ext4 -b 1024 "${@:2}" "$1" 2>/dev/null; }
mk outside.img -J size=1 && printf 'ssv journal_dev 0x801\nssv journal_uuid random\n' | dbg outside.img
refused "an external journal" 16 'an external journal.*run: tune2fs -O .has_journal' outside.img outside.img
size=128M mk bigalloc.img -O bigalloc -C 2M
refused "large clusters" 16 'bigalloc with clusters of more than 1 MiB' bigalloc.img bigalloc.img
rm bigalloc.img
mk shared.img -O ^has_journal && printf 'feature shared_blocks\n' | dbg shared.img
refused "shared_blocks" 16 'shared_blocks' shared.img shared.img
mk jdev.img -O journal_dev 2>/dev/null || mke2fs -q -F -O journal_dev -b 1024 jdev.img
refused "a journal device" 16 'journal' jdev.img jdev.img
truncate -s 8M ext2.img && mke2fs -q -F -t ext2 ext2.img
printf '\006' | dd of=ext2.img bs=1 seek=$((1024 + 96)) conv=notrunc status=none # needs_recovery
refused "a journal to be replayed that is not there" 4 'there is none; run: e2fsck -p' ext2.img ext2.img
is "as e2fsck -p sees it" sh -c 'e2fsck -p ext2.img; [ $? -le 1 ]'
is "and then" "$BIN" -q ext2.img
mk quotas.img -O ^has_journal,quota
refused "quotas without a journal" 16 'not supported: quotas without a journal.*run: tune2fs -j' quotas.img quotas.img
is "and with one, as it says" sh -c 'tune2fs -j quotas.img && "$0" -q quotas.img && tune2fs -O ^has_journal quotas.img && e2fsck -fn quotas.img' "$BIN"
mk unclean.img -O ^has_journal && printf 'ssv state 0\n' | dbg unclean.img
refused "no journal, not clean" 4 'not cleanly unmounted; run: e2fsck -p' unclean.img unclean.img

# in use
image base1k busy.img
flock -x -F busy.img sleep 300 >/dev/null 2>&1 &
children+=($!)
until ! flock -n -s busy.img true; do sleep 0.05; done
refused "locked by another process" 8 . busy.img busy.img
image base1k qemu.img
python3 - qemu.img <<'P' >/dev/null 2>&1 &
import fcntl, struct, sys, time
f = open(sys.argv[1], 'r+b')
for off in (100, 101, 103, 201, 203):
    fcntl.fcntl(f, 37, struct.pack('hhqqi4x', 0, 0, off, 1, 0))  # F_OFD_SETLK, F_RDLCK
open('locked', 'w')
time.sleep(300)
P
children+=($!)
for _ in $(seq 600); do [ -e locked ] && break || sleep 0.05; done
refused "in use by qemu" 8 . qemu.img qemu.img
if can_mount; then
	image base1k mounted.img
	mkdir mnt && attach mounted.img && mount "$loop" mnt && mounts+=("$T/mnt") && sync
	refused "mounted, by its device" 8 . "" "$loop"
	refused "mounted, by its image" 8 . mounted.img mounted.img
	umount mnt
	refused "image attached to a loop device" 8 'loop' mounted.img mounted.img
	detach "$loop"
else
	skip "mounted image: no loop mounts here"
	skip "mounted device: no loop mounts here"
	skip "attached image: no loop mounts here"
fi
image base1k ro.img && chmod 444 ro.img
if root; then
	skip "image without write permission: root may write"
else
	refused "image without write permission" 8 . ro.img ro.img
fi
