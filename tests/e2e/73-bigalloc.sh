# SPDX-License-Identifier: GPL-2.0-or-later
# bigalloc, on images made by mke2fs and debugfs: free clusters between files, files of parts of
# clusters, holes; every mode, small and large clusters.
. "$(dirname "$0")/lib.sh"
cd "$T" || exit 1

mkdir -p tree/dir
for i in $(seq 60); do head -c $((i * 3997 % 60000 + 300)) /dev/urandom >"tree/dir/f$i"; done
ln -s "$(head -c 200 /dev/zero | tr '\0' s)" tree/slow
# parts of clusters, and holes shorter and longer than one
for at in 0 3 5 9 21 60 61 200 203 1000 4001; do
	dd if=/dev/urandom of=tree/holes bs=1k seek=$at count=2 conv=notrunc status=none
done
truncate -s 5M tree/holes
head -c 3500000 /dev/urandom >large

# FILE SIZE BLOCK CLUSTER: every second small file makes room, which larger ones fill
make_image() {
	local i
	truncate -s "$2" "$1"
	mke2fs -q -F -t ext4 -O bigalloc -b "$3" -C "$4" -N 512 -d tree "$1" 2>/dev/null || return
	{
		for i in $(seq 100); do echo "write tree/dir/f1 s$i"; done
		for i in $(seq 1 2 99); do echo "rm s$i"; done
		for i in 1 2 3; do echo "write large large$i"; done
		echo "write tree/holes holes2"
	} | dbg "$1"
	clean "$1" >/dev/null 2>&1
}

judge() { # NAME FILE MODE [ARG...]
	local name=$1 file=$2 mode=$3
	shift 3
	done_well "$name, --mode $mode" "$file" --mode "$mode" "$@" "$file"
	is "$name, --mode $mode: no fragmented file is left" equal "$(fragmented "$file")" 0
	is "$name, --mode $mode: a second run plans nothing" \
		equal "$("$BIN" -n --mode "$mode" --json "$file" 2>/dev/null | jq .plan.bytes)" 0
}

try() { # SIZE BLOCK CLUSTER MODE...
	local mode name="$2, clusters of $3"
	make_image base.img "$1" "$2" "$3" || not_ok "$name: no image"
	is "$name: fragmented" test "$(fragmented base.img)" -ge 3
	for mode in "${@:4}"; do
		cp --sparse=always base.img x.img
		judge "$name" x.img "$mode"
	done
}
try 40M 1024 8192 files layout
try 64M 4096 16384 free shrink
judge "in small batches" base.img files --batch-size 1M --verify
try 256M 4096 65536 files
try 1G 4096 1048576 files

# the kernel's own way of filling clusters, and its own look at the result
if can_mount; then
	m=$T/mnt
	mkdir -p "$m"
	truncate -s 64M k.img && mke2fs -q -F -t ext4 -O bigalloc -b 1024 -C 16384 k.img 2>/dev/null
	mount -o loop k.img "$m" && mounts+=("$m")
	for k in 1 9 17 60 61; do
		for i in $(seq 8); do
			head -c 3000 /dev/urandom >"$m/s$k-$i"
			dd if=/dev/urandom of="$m/h$i" bs=1k seek=$((k * 5)) count=1 conv=notrunc status=none
			head -c 20000 /dev/urandom >>"$m/a$i"
			sync -f "$m"
		done
	done
	fallocate -n -l 300000 "$m/a3"
	fallocate -p -o 3072 -l 2048 "$m/a4"
	rm "$m"/s*-3
	(cd "$m" && sha256sum $(ls -p | grep -v /)) >sums
	umount "$m"
	is "by the kernel: fragmented" test "$(fragmented k.img)" -gt 6
	judge "by the kernel" k.img files
	mount -o loop k.img "$m"
	is "the kernel reads it" sh -c "cd $m && sha256sum -c --quiet $T/sums"
	is "the kernel writes to it" sh -c "head -c 30000000 /dev/urandom >$m/more && rm $m/a1 && sync -f $m"
	umount "$m"
	is "clean after that" clean k.img
else
	skip "no mounts: files that the kernel has made"
fi
