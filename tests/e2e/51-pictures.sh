# SPDX-License-Identifier: GPL-2.0-or-later
# The map, the HTML report and the SVG image.
. "$(dirname "$0")/lib.sh"
cd "$T" || exit 1
unset COLUMNS NO_COLOR

widest() { awk '{ if (length > n) n = length } END { print n + 0 }' "$1"; }
rows() { grep -cE '^  [#x+.=]+$' "$1"; }

image demo a.img
before=$(sum a.img)
COLUMNS=60 "$BIN" -c --map a.img >out 2>err
is "-c --map: nothing on standard error" equal "$(wc -c <err)" 0
is "-c --map: one picture" equal "$(grep -cE '^(now|before|after|planned)$' out)" 1
is "-c --map: fragmented cells" sh -c 'sed -n "/^now/,/contiguous/p" out | grep -q "^  .*xx"'
is "-c --map writes nothing" equal "$(sum a.img)" "$before"
sed -n '/^map/,/fixed$/p' out >map
is "60 columns are enough" test "$(widest map)" -le 60
is "at most 8 lines" test "$(rows map)" -le 8
for columns in 80 40; do
	COLUMNS=$columns "$BIN" -c --list 0 --map a.img | sed -n '/^map/,/fixed$/p' >map
	is "so are $columns" equal "$(widest map)" $columns
	is "at $columns: at most 8 lines" test "$(rows map)" -le 8
done
COLUMNS=60 "$BIN" -n --map a.img >out
is "-n --map: before and planned" equal "$(grep -cE '^(before|planned)$' out)" 2
COLUMNS=100 LC_ALL=C.UTF-8 "$BIN" --map --report=r.html --svg=m.svg a.img >out
is "a run: before and after" equal "$(grep -cE '^(before|after)$' out)" 2
is "UTF-8 where the locale has it" grep -q '█' out
is "no colour without a terminal" sh -c '! grep -q "$(printf "\033")" out'
sed -n '/^after/,$p' out >after
is "nothing is fragmented after" sh -c '! grep -q "^  .*▞▞" after'
is "a file system as before" clean a.img

cat >tags.py <<'P'
import sys
from html.parser import HTMLParser
open_tags, bad = [], []
VOID = {'meta', 'link', 'br', 'img'}
class P(HTMLParser):
    def handle_starttag(self, tag, attrs):
        if tag in ('script', 'iframe', 'object', 'img', 'link', 'base', 'form', 'embed'):
            bad.append(tag)
        for k, v in attrs:
            if k in ('src', 'href') or k.startswith('on'):
                bad.append(k)
        if tag not in VOID:
            open_tags.append(tag)
    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            open_tags.pop()
    def handle_endtag(self, tag):
        if not open_tags or open_tags.pop() != tag:
            bad.append('/' + tag)
P().feed(open(sys.argv[1], encoding='utf-8').read())
print(bad, open_tags)
sys.exit(bool(bad or open_tags))
P
is "the page is well formed and needs nothing else" python3 tags.py r.html
is "the image is XML" python3 -c 'import sys, xml.dom.minidom as m; m.parse(sys.argv[1])' m.svg
is "the page has the maps, the histogram and the flow" equal "$(grep -c '<svg' r.html)" 3
is "the page is small" test "$(stat -c %s r.html)" -lt 1000000
"$BIN" -q --report=r.html a.img
is "-q --report: an earlier page is replaced" grep -q 'nothing to do' r.html
"$BIN" --report=r.html no-such.img 2>/dev/null
is "a refusal has a page too" grep -q 'cannot find' r.html
is "which is well formed" python3 tags.py r.html
before=$(sum a.img)
refused "--report=IMAGE" 16 'no report: not replaced' a.img --report=a.img a.img
refused "--svg=IMAGE" 16 'not replaced' a.img --svg=a.img a.img
is "--svg replaces an SVG image of ours" "$BIN" -q -c --svg=m.svg a.img
echo '<svg xmlns="http://www.w3.org/2000/svg"/>' >own.svg
refused "--svg: somebody's image" 16 'not replaced' own.svg --svg=own.svg a.img
lines=2 refused "--map and -q" 16 '\-\-map' a.img --map -q a.img
if [ -w /dev/full ]; then
	"$BIN" -c --report=/dev/full a.img >out 2>err
	is "a page that can't be written: exit code 8" equal $? 8
fi

# hostile names: of the image, and of the file with most runs
image demo '<b>&"x'\''.img'
ino=$("$BIN" -c --json '<b>&"x'\''.img' | jq '.still_fragmented[0].inode')
printf 'ln <%s> "/<script>alert(1)<script>&"\n' "$ino" | dbg '<b>&"x'\''.img'
"$BIN" -c --report=hostile.html --svg=hostile.svg '<b>&"x'\''.img' >/dev/null
is "hostile names: the page is well formed" python3 tags.py hostile.html
is "hostile names: the file is named" grep -q '&lt;script&gt;alert(1)&lt;script&gt;&amp;' hostile.html
is "hostile names: the image is XML" python3 -c 'import sys, xml.dom.minidom as m; m.parse(sys.argv[1])' hostile.svg

# on a terminal: colours, and as wide as it is
if command -v script >/dev/null; then
	tty() { script -qec "stty cols $1; exec env $2 TERM=xterm $BIN -c --list 0 --map --progress never a.img" /dev/null </dev/null; }
	tty 48 LC_ALL=C >out
	is "a terminal has colours" grep -q "$(printf '\033')\[36m" out
	sed 's/\x1b\[[0-9;]*m//g; s/\r//g' out | sed -n '/^map/,/fixed$/p' >map
	is "48 columns are enough" test "$(widest map)" -le 48
	tty 60 NO_COLOR=1 >out
	is "NO_COLOR: none" sh -c '! grep -q "$(printf "\033")" out'
else
	skip "colours on a terminal: no script(1)"
fi
