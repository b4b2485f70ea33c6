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
name="extents in the inode, the last ones unwritten" debugfs_sizes sparse.img beyond-the-end 4095 3072 3071 0
name="a tree" debugfs_sizes deep.img deep 510977 510976 510975 1000
name="block-mapped, direct" debugfs_sizes ext3.img mapped/direct 7168 7167 1024
name="block-mapped, indirect" debugfs_sizes ext3.img mapped/indirect 121856 121855 12289
name="block-mapped, double" debugfs_sizes ext3.img mapped/double 408576 408575 274432 12288
name="a directory" debugfs_sizes dirs.img linear 3072 2048
echo 'sif beyond-the-end flags 0x180000' | dbg sparse.img && tune2fs -O verity sparse.img >/dev/null 2>&1
is "verity: hashes lie there" sh -c 'echo "sif beyond-the-end size 2000" | debugfs -w -f - sparse.img &&
	e2fsck -fn sparse.img && "$0" -n -q sparse.img' "$BIN"

echo 'sif unwritten size 1000' | dbg sparse.img
is "unwritten blocks may lie there" sh -c 'e2fsck -fn sparse.img && "$0" -n -q sparse.img' "$BIN"

cp deep.img x.img && echo 'sif deep size 1000' | dbg x.img
refused "such a file" 4 'inode 12.*beyond its size; run: e2fsck -f x.img' x.img x.img
e2fsck -fy x.img >/dev/null 2>&1
is "as it says, and then" "$BIN" -q x.img
