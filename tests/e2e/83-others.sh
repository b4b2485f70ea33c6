# SPDX-License-Identifier: GPL-2.0-or-later
# What other people bring: images of other writers, containers and disks of other tools, qemu at the
# same image, and runs that were cut off.
# alone: it copies the mounts of all others into a namespace of its own.
. "$(dirname "$0")/lib.sh"
cd "$T" || exit 1

# ---- writers of file systems: done with equal content, or refused
mkdir -p tree/dir
for i in $(seq 40); do head -c $((i * 3001)) /dev/urandom >"tree/dir/f$i"; done
ln -s "$(printf '%0100d' 1)" tree/slow
{
	echo 'mkdir dir'
	for i in $(seq 40); do echo "write tree/dir/f$i dir/f$i"; done
} >commands
lived() { "$MKIMAGE" shatter "$1" >shatter.out && test "$(fragmented "$1")" -gt 20; }
blank() { rm -f "$1" && truncate -s 24M "$1"; }

blank a.img && mke2fs -q -F -r 0 -b 1024 -d tree a.img && tune2fs -j a.img >/dev/null 2>&1
"$MKIMAGE" shatter a.img >shatter.out
refused "revision 0 with a journal" 4 'revision 0; run: e2fsck -f' a.img a.img
done_well "and with -p it is of revision 1" a.img -q -p a.img
if command -v genext2fs >/dev/null; then
	genext2fs -B 1024 -b 24576 -N 256 -d tree -z a.img
	is "genext2fs: fragmented" lived a.img
	done_well "genext2fs" a.img a.img
	genext2fs -B 1024 -b 24576 -N 256 -d tree -o hurd a.img
	refused "GNU Hurd" 16 'GNU Hurd' a.img a.img
else
	skip "genext2fs is not there"
fi
if command -v busybox >/dev/null && busybox --list | grep -q '^mke2fs$'; then
	blank a.img && busybox mke2fs -F -I 128 a.img >/dev/null && dbg a.img <commands
	is "busybox mke2fs: fragmented" lived a.img
	done_well "busybox mke2fs" a.img a.img
else
	skip "busybox with mke2fs is not there"
fi
while read -r name options; do
	# shellcheck disable=SC2086
	blank a.img && mke2fs -q -F -d tree $options a.img >mke2fs.out 2>&1
	is "$name: fragmented" lived a.img
	done_well "$name" a.img a.img
done <<'L'
phone -t ext4 -b 4096 -O encrypt,verity,casefold,stable_inodes,^resize_inode -E encoding=utf8 -M /data
old_phone -t ext4 -b 4096 -O uninit_bg,^metadata_csum,^64bit,^flex_bg,^resize_inode -m 0 -M /system
tiny_groups -t ext4 -b 1024 -g 256 -O meta_bg,^resize_inode
packed -t ext4 -b 1024 -G 4 -E packed_meta_blocks=1
revision_0 -r 0 -b 1024
old_initrd -t ext2 -b 1024 -N 100 -m 0 -I 128 -O none
one_backup -t ext4 -b 1024 -O sparse_super2,^resize_inode -E num_backup_sb=1
all_in_one_flex_group -t ext4 -b 1024 -g 512 -G 1048576 -O ^resize_inode
no_large_file -t ext4 -b 2048 -I 128 -O ^large_file,^huge_file,^dir_nlink,^extra_isize,^metadata_csum,^64bit
odd_groups -t ext4 -b 1024 -g 2040 -N 500
inode_a_block -t ext4 -b 1024 -I 1024 -N 500
L
# its format changed over the years, by others' tools
blank a.img && mke2fs -q -F -d tree -t ext4 -b 1024 -I 128 -O ^64bit,^metadata_csum,^flex_bg a.img >mke2fs.out 2>&1
is "changed: larger inodes" tune2fs -I 256 a.img
is "changed: checksums" tune2fs -O metadata_csum a.img
is "changed: 64bit" resize2fs -b a.img
is "changed: longer" resize2fs a.img 40M
is "changed: fragmented" lived a.img
done_well "changed" a.img a.img

# what e2fsck leaves in reserved inodes that have no mode is no reason to refuse
image base1k a.img
printf 'sif <6> block[0] 0x1234567\nsif <4> flags 0x80000\nsif <3> file_acl 5000\n' | dbg a.img
done_well "garbage in reserved inodes" a.img a.img

# ---- containers: named, with what helps
if command -v qemu-img >/dev/null; then
	image base1k raw.img
	while read -r format options pattern; do
		[ "$options" != - ] && options="-o $options" || options=
		# shellcheck disable=SC2086
		qemu-img convert -q -O "$format" $options raw.img "x.$format" || continue
		refused "a real image: $format $options" 16 "$pattern" "x.$format" "x.$format"
	done <<'L'
qcow2 compat=0.10 qcow.*(qemu-nbd|nbdfuse)
qcow2 compat=1.1 qcow.*(qemu-nbd|nbdfuse)
qcow - qcow
qed - QED.*qemu-img.convert
vdi - VDI.*qemu-img.convert
vhdx - VHDX.*qemu-img.convert
vpc subformat=dynamic VHD.*qemu-img.convert
vmdk - VMDK.*qemu-img.convert
vmdk subformat=streamOptimized VMDK.*qemu-img.convert
vmdk subformat=monolithicFlat VMDK.*qemu-img.convert
parallels - Parallels.*qemu-img.convert
L
	rm -f x.*
else
	skip "containers: no qemu-img"
fi

# ---- disks: every command that the message has is run; what is not the partition's stays
image base1k fs.img
n=$(($(stat -c %s fs.img) / 512))
digest_fs=$(digest fs.img)
commands_work() { # NAME FILE PARTITIONS FIRST-SECTOR...
	local name=$1 file=$2 want=$3 before found=0 command at k
	shift 3
	for at; do dd if=fs.img of="$file" bs=512 seek="$at" conv=notrunc status=none; done
	# with the options as they were: -q, and a glob that a shell must not see
	refused "$name: a list" 16 'whole disk with partitions; ext4: ' "$file" -q --exclude '* ?' "$file"
	before=$(sed 's/.*; ext4: //' err)
	is "$name: ready commands" equal \
		"$(grep -o "scaledefrag-offline -q --exclude '\* ?' '" <<<"$before" | wc -l)" "$want"
	while read -r command; do
		cp "$file" was.img
		(eval "$command") >out 2>err
		is "$name: $command" equal $? 0
		is "$name: as quiet as it was" equal "$(wc -c <out)" 0
		at=${command#*offset=} && at=${at%\'*}
		dd if="$file" of=part.img bs=512 skip=$((at / 512)) count=$n status=none
		is "$name: clean" clean part.img
		is "$name: content equal" equal "$(digest part.img)" "$digest_fs"
		is "$name: something was moved" sh -c '! cmp -s part.img fs.img'
		dd if=fs.img of=was.img bs=512 seek=$((at / 512)) conv=notrunc status=none
		cp "$file" now.img && dd if=fs.img of=now.img bs=512 seek=$((at / 512)) conv=notrunc status=none
		is "$name: all else is as before, bit by bit" cmp was.img now.img
		found=$((found + 1))
	done < <(tr ';' '\n' <<<"$before" | sed 's/^ *[0-9]*: //')
	is "$name: all of them" equal $found "$want"
}
if command -v sfdisk >/dev/null; then
	truncate -s $(((3 * n + 8192) * 512)) gpt.img
	printf 'label: gpt\nstart=2048, size=%s\nstart=%s, size=%s\nstart=%s, size=2048\n' $n \
		$((n + 2048)) $n $((2 * n + 2048)) | sfdisk -q gpt.img
	commands_work GPT gpt.img 2 2048 $((n + 2048))
	truncate -s $(((3 * n + 8192) * 512)) mbr.img
	# the first one at sector 63, as DOS had it; a logical one
	printf 'label: dos\nstart=63, size=%s, type=83\nstart=%s, size=%s, type=5\nstart=%s, size=%s, type=83\n' \
		$n $((n + 100)) $((n + 4096)) $((n + 2148)) $n | sfdisk -q mbr.img
	commands_work MBR mbr.img 2 63 $((n + 2148))
	rm -f gpt.img mbr.img
else
	skip "disks: no sfdisk"
fi

# ---- qemu itself
if command -v qemu-io >/dev/null && command -v qemu-nbd >/dev/null; then
	image base1k x.img
	qemu-nbd -t -f raw -k "$T/socket" x.img >/dev/null 2>&1 &
	server=$!
	children+=($server)
	until [ -S socket ] || ! kill -0 $server 2>/dev/null; do sleep 0.05; done
	refused "an image that qemu has open" 8 "process $server .*qemu's image lock" x.img x.img
	kill $server && wait $server
	# While we run, we wait for our reader, who tries qemu meanwhile.
	cat >meanwhile.py <<'P'
import fcntl, os, subprocess, sys
r, w = os.pipe2(os.O_DIRECT)
fcntl.fcntl(w, fcntl.F_SETPIPE_SZ, 4096)
p = subprocess.Popen([sys.argv[1], '-q', '-C', str(w), 'x.img'], pass_fds=[w])
os.close(w)
os.read(r, 4096)
q = subprocess.run(['qemu-io', '-f', 'raw', '-c', 'write 0 512', 'x.img'], capture_output=True, text=True)
print(q.stdout, q.stderr)
status = open(f'/proc/{p.pid}/status').read()
locked = subprocess.run(['flock', '-n', '-s', 'x.img', 'true']).returncode # as udev asks
running = p.poll() is None
while os.read(r, 4096):
    pass
sys.exit(0 if running and p.wait() == 0 and locked == 1 and q.returncode and 'lock' in q.stderr
         and 'NoNewPrivs:\t1' in status else 1)
P
	before=$(digest x.img)
	is "neither qemu nor udev gets an image that we work on" python3 meanwhile.py "$BIN"
	is "and nothing was written by it" equal "$(digest x.img)" "$before"
	is "but it can afterwards" qemu-io -f raw -c 'read 0 512' x.img
else
	skip "qemu's tools are not there"
fi

# ---- in use where others look
if can_mount; then
	mkdir -p m && cp fs.img x.img
	# shellcheck disable=SC2016
	unshare -m sh -c 'mount -o loop x.img m && touch m/up up && exec sleep 300' &
	holder=$!
	children+=($holder)
	until [ -e up ] || ! kill -0 $holder 2>/dev/null; do sleep 0.05; done
	where="mounted on .* in the mount namespace of process $holder; run: nsenter -t $holder -m umount"
	refused "mounted in another namespace, by its image" 8 "in use by /dev/loop[0-9]*, which is $where" "" x.img
	refused "mounted in another namespace, by its device" 8 "$where" "" "$(losetup -j x.img | cut -d: -f1)"
	kill $holder
	wait $holder 2>/dev/null
	cp fs.img swap.img && mkswap swap.img >/dev/null 2>&1 && attach swap.img
	if swapon "$loop" 2>/dev/null; then
		refused "swap" 8 "$loop is in use as swap space; run: swapoff $loop" "" "$loop"
		swapoff "$loop"
	else
		skip "no swap on a loop device here"
	fi
	detach "$loop"
else
	skip "mounted in another namespace: no loop mounts here"
fi

# ---- runs that were cut off: healed by e2fsck -p, by a mount, by our own -p, and then it goes on
image demo orig.img
want=$(digest orig.img)
signal_after 22 KILL -q --batch-size 1M orig.img
is "killed while it wrote" sh -c 'dumpe2fs -h orig.img 2>/dev/null | grep -q needs_recovery'
printf 'jo\njw -b 70 /dev/zero\njc\n' >log_entry # a committed transaction in the log
image base1k logged.img && dbg logged.img <log_entry
cp logged.img x.img && e2fsck -p x.img >/dev/null 2>&1
logged=$(digest x.img)
heal() { # NAME IMAGE DIGEST
	cp "$2" x.img && e2fsck -p x.img >/dev/null 2>&1
	done_well "$1, e2fsck -p" x.img x.img
	is "$1, e2fsck -p: the content that it had" equal "$(digest x.img)" "$3"
	cp "$2" x.img
	"$BIN" -q -p x.img >out 2>err
	is "$1, our -p: exit code" equal $? 0
	is "$1, our -p: clean" clean x.img
	is "$1, our -p: the content that it had" equal "$(digest x.img)" "$3"
	if can_mount; then
		mkdir -p m && mounts+=("$T/m") && cp "$2" x.img && mount -o loop x.img m && umount m
		done_well "$1, a mount" x.img x.img
		is "$1, a mount: the content that it had" equal "$(digest x.img)" "$3"
	else
		skip "$1: no loop mounts here"
	fi
}
heal "killed" orig.img "$want"
refused "a log with a transaction" 4 'e2fsck -p' logged.img logged.img
heal "a log with a transaction" logged.img "$logged"
