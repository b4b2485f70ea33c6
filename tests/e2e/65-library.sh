# SPDX-License-Identifier: GPL-2.0-or-later
# The library as it is installed: names, header, pkg-config file, and the example of its manual.
. "$(dirname "$0")/lib.sh"
cd "$T" || exit 1
if ! command -v pkg-config >/dev/null; then
	skip "library: no pkg-config"
	exit 0
fi
make -s --no-print-directory -C "$top" install-lib PREFIX="$T/usr" DESTDIR= >make.out 2>&1 || {
	not_ok "make install-lib"
	cat make.out
	exit 1
}
export PKG_CONFIG_PATH=$T/usr/lib/pkgconfig
is "three files" equal "$(cd usr && find . -type f | sort | tr '\n' ' ')" \
	"./include/scaledefrag.h ./lib/libscaledefrag.a ./lib/pkgconfig/scaledefrag.pc "
foreign=$(nm -g --defined-only usr/lib/libscaledefrag.a 2>/dev/null |
	awk 'NF == 3 && $3 !~ /^scaledefrag_/ && $3 !~ /^\.gomp_critical_user_/ { print $3 }')
is "no name but scaledefrag_*" equal "$foreign" ""
is "version" equal "scaledefrag-offline $(pkg-config --modversion scaledefrag)" "$("$BIN" -V)"
echo '#include <scaledefrag.h>' >alone.c
is "the header stands alone, in plain C11" \
	cc -std=c11 -pedantic-errors -Wall -Wextra -Werror -fsyntax-only -Iusr/include alone.c
if command -v c++ >/dev/null; then
	is "and in C++" c++ -x c++ -Wall -Wextra -Werror -fsyntax-only -Iusr/include alone.c
else
	skip "library: no C++ compiler"
fi

# The manual's own words: its command line, and its program.
sed -n '/^ \* example\.c:$/,/^ \* Callbacks/s/^ \* \{5\}//p' usr/include/scaledefrag.h >example.c
build=$(sed -n 's/.*to build: \(cc .*)\)$/\1/p' usr/include/scaledefrag.h)
is "the manual has a program and how to build it" test -n "$build" -a "$(wc -l <example.c)" -gt 30
is "it builds, without a warning" sh -ec "${build/cc/cc -std=c11 -Wall -Wextra -Werror -o example}"
image demo a.img
before=$(digest a.img) n=$(fragmented a.img)
is "it runs" sh -c './example a.img >out 2>err'
is "it says what it did" equal "$(awk '/^fragmented files/{print $3, $4}' out)" "$n 0"
is "its log" grep -q 'opened: ext4' err
is "nothing is fragmented" equal "$(fragmented a.img)" 0
is "clean" clean a.img
is "content equal" equal "$(digest a.img)" "$before"
echo no >b.img
./example b.img >out 2>err
is "a refusal: exit code 16" equal $? 16
is "and its reason" grep -q 'b.img' err

# The program's own use of the log.
image demo a.img
"$BIN" -vv a.img >out 2>err
is "-vv: exit code 0" equal $? 0
is "-vv: the log is on standard error" grep -q '^scaledefrag-offline: opened: ext4' err
is "-vv: and not in the report" sh -c '! grep -q opened: out'
