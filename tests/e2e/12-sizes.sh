# SPDX-License-Identifier: GPL-2.0-or-later
# Written blocks beyond a file's size: refused where e2fsck says that they are wrong, and only there.
. "$(dirname "$0")/lib.sh"
cd "$T" || exit 1

debugfs_sizes() { # IMAGE FILE SIZE...: our exit code is e2fsck's for each size
	local file=$2 size code codes="" different=""
	cp "$1" x.img
	for size in "${@:3}"; do
		echo "sif $file size $size" | dbg x.img
		clean x.img >/dev/null 2>&1
		code=$?
		"$BIN" -n -q x.img 2>err
		[ $? = $code ] || different+=" $size"
		[ $code = 0 ] || grep -q 'it has written blocks beyond its size; run: e2fsck -f' err || different+=" $size"
		codes+=" $code"
	done
	is "$name: as e2fsck" equal "$different" ""
	is "$name: some are right, some wrong" grep -q '0.*4\|4.*0' <<<"$codes"
}
image sparse sparse.img && image shrink deep.img && image ext3 ext3.img && image dirs dirs.img
name="extents in the inode, the last ones unwritten" debugfs_sizes sparse.img beyond-the-end 4097 4096 4095 3073 3072 3071 1 0
name="a tree" debugfs_sizes deep.img deep 511000 510977 510976 510975 1025 1024 1000 0
name="block-mapped, direct" debugfs_sizes ext3.img mapped/direct 8192 7168 7167 1024 0
name="block-mapped, indirect" debugfs_sizes ext3.img mapped/indirect 122880 121856 121855 12289 1000
name="block-mapped, double" debugfs_sizes ext3.img mapped/double 409600 408576 408575 274432 12288 0
name="a directory" debugfs_sizes dirs.img linear 3072 2048 1024
echo 'sif beyond-the-end flags 0x180000' | dbg sparse.img && tune2fs -O verity sparse.img >/dev/null 2>&1
is "verity: hashes lie there" sh -c 'echo "sif beyond-the-end size 2000" | debugfs -w -f - sparse.img &&
	e2fsck -fn sparse.img && "$0" -n -q sparse.img' "$BIN"

cp deep.img x.img && echo 'sif deep size 1000' | dbg x.img
refused "such a file" 4 'inode 12.*beyond its size; run: e2fsck -f x.img' x.img x.img
e2fsck -fy x.img >/dev/null 2>&1
is "as it says, and then" "$BIN" -q x.img
