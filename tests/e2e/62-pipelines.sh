# SPDX-License-Identifier: GPL-2.0-or-later
# The recipes of docs/recipes.md, as they stand there.
# long
. "$(dirname "$0")/lib.sh"
. "$here/recipes.sh"
cd "$T" || exit 1

tree() { # rootfs/: files that share directories, links, a hole, an attribute if we may
	rm -rf rootfs
	mkdir -p rootfs/etc rootfs/var/lib/many
	for i in $(seq 200); do head -c $((i * 331)) /dev/urandom >"rootfs/var/lib/many/$i"; done
	echo hello >"rootfs/etc/name with blanks"
	ln -s ../etc rootfs/var/link
	ln rootfs/var/lib/many/200 rootfs/etc/hard
	truncate -s 3M rootfs/var/lib/holes && echo x >>rootfs/var/lib/holes
}
reads_as() { # IMAGE[?offset] FILE: debugfs reads the same bytes
	debugfs -R "dump /$2 out.bin" "$1" >/dev/null 2>&1 && cmp out.bin "rootfs/$2"
}
held() { du -B1 "$1" | cut -f1; }

# The image has lived: its files are fragmented, and free blocks hold what was there once.
lived() {
	image demo disk.img
	head -c 8M /dev/urandom >junk.bin
	printf 'write junk.bin junk\nrm junk\n' | dbg disk.img
	want=$(digest disk.img)
}
files() { rm -rf "$2" && mkdir "$2" && debugfs -R "rdump / $2" "$1" >/dev/null 2>&1; }
judge() { # NAME IMAGE: nothing fragmented, clean, content as before
	is "$1: nothing is fragmented" equal "$(fragmented "$2")" 0
	is "$1: clean" clean "$2"
	is "$1: content equal" equal "$(digest "$2")" "$want"
}

if recipe "same bytes each time" mke2fs debugfs; then
	tree
	is "mke2fs -d" run_recipe
	mv disk.img first.img
	sleep 1
	cat rootfs/etc/* >/dev/null 2>&1
	chmod 600 rootfs/etc/hard && chmod 644 rootfs/etc/hard # another time of change
	is "mke2fs -d, again" run_recipe
	is "mke2fs -d: two builds are equal" cmp first.img disk.img
	is "mke2fs -d: nothing is fragmented" equal "$(fragmented disk.img)" 0
	is "mke2fs -d: clean" clean disk.img
	is "mke2fs -d: the files are in it" reads_as disk.img var/lib/many/77
fi
if recipe "smallest image" resize2fs; then
	lived
	size=$(stat -c %s disk.img)
	files disk.img before
	is "smallest" run_recipe
	is "smallest: it is smaller" test "$(stat -c %s disk.img)" -lt $((size * 3 / 4))
	is "smallest: nothing is fragmented" equal "$(fragmented disk.img)" 0
	is "smallest: clean" clean disk.img
	files disk.img after # resize2fs may give files other inode numbers: the digest would tell
	is "smallest: the files are equal" diff -r --no-dereference before after
fi
if recipe "genimage" genimage mke2fs; then
	tree
	is "genimage" run_recipe
	is "genimage: clean" clean images/rootfs.ext4
	is "genimage: nothing is fragmented" equal "$(fragmented images/rootfs.ext4)" 0
	is "genimage: the files are in it" reads_as images/rootfs.ext4 var/lib/many/77
	sed -i 's/-q \$IMAGEOUTFILE/--no-such-option/' recipe.sh
	rm -rf images
	is "genimage: stops where exec-post fails" sh -c '! sh recipe.sh'
fi
if recipe "sparse image"; then
	lived
	before=$(held disk.img)
	is "sparse" run_recipe
	is "sparse: takes less room" test "$(held disk.img)" -lt "$before"
	judge sparse disk.img
fi
if recipe "same with zeros" zerofree fallocate; then
	lived
	before=$(held disk.img)
	is "zeros" run_recipe
	is "zeros: takes less room" test "$(held disk.img)" -lt "$before"
	judge zeros disk.img
fi
if recipe "virt-sparsify" virt-sparsify; then
	lived
	before=$(held disk.img)
	if ! run_recipe >virt.out 2>&1 && grep -q 'guestfs_launch failed' virt.out; then
		skip "virt-sparsify: its virtual machine does not start here"
	else
		is "virt-sparsify: no error" sh -c '! grep -i error virt.out'
		is "virt-sparsify: takes less room" test "$(held disk.img)" -lt "$before"
		judge virt-sparsify disk.img
	fi
fi
if recipe "partition of a disk" sfdisk; then
	lived
	mv disk.img fs.img
	n=$(($(stat -c %s fs.img) / 512))
	truncate -s $(((n * 2 + 6144) * 512)) disk.img
	printf 'label: gpt\nstart=2048, size=%s\nstart=%s, size=%s\n' $n $((n + 2048)) $n |
		sfdisk -q disk.img
	for at in 2048 $((n + 2048)); do
		dd if=fs.img of=disk.img bs=512 seek=$at conv=notrunc status=none
	done
	is "partition" run_recipe
	dd if=disk.img of=second.img bs=512 skip=$((n + 2048)) count=$n status=none
	judge partition second.img
	dd if=disk.img bs=512 skip=2048 count=$n status=none | cmp -s - fs.img
	is "partition: the other one is as before" equal $? 0
	is "partition: the table is whole" sfdisk -q --verify disk.img
fi

qcow2() { lived && qemu-img convert -O qcow2 disk.img disk.qcow2 && rm disk.img; }
judge_qcow2() {
	is "$1: qemu-img check" qemu-img check -q disk.qcow2
	qemu-img convert -O raw disk.qcow2 result.img
	judge "$1" result.img
}
if recipe "by conversion" qemu-img; then
	qcow2
	before=$(held disk.qcow2)
	is "qcow2, converted" run_recipe
	is "qcow2, converted: not larger" test "$(held disk.qcow2)" -le "$before"
	judge_qcow2 "qcow2, converted"
fi
if recipe "in place" qemu-img qemu-nbd nbdfuse fusermount3 /dev/fuse; then
	qcow2
	is "qcow2, in place" run_recipe
	judge_qcow2 "qcow2, in place"
	is "qcow2, in place: nothing stays mounted" sh -c '! mountpoint -q mnt'
fi
is "every recipe was looked at" equal "$(grep -c '^## ' "$top/docs/recipes.md")" $((looked_at + 1))
