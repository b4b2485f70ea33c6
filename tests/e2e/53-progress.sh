# SPDX-License-Identifier: GPL-2.0-or-later
# Progress: e2fsck's lines and signals, JSON lines, and nothing of it on standard output.
. "$(dirname "$0")/lib.sh"
cd "$T" || exit 1

image demo a.img
cp a.img b.img
# e2fsck's own lines say what ours have to look like
e2fsck -fy -C 5 b.img 5>theirs >/dev/null 2>&1
"$BIN" -q -C 5 b.img 5>ours >out 2>err
form='^[0-9]+ [0-9]+ [0-9]+ b\.img$'
is "e2fsck's lines: number, number, number, name" sh -c 'test -s theirs && ! grep -vE "$0" theirs' "$form"
is "ours: the same" sh -c 'test -s ours && ! grep -vE "$0" ours' "$form"
is "there are some of each pass" equal "$(cut -d' ' -f1 ours | sort -nu | tr -d '\n')" 12345
is "passes only go up" sh -c 'cut -d" " -f1 ours | sort -nc'
is "done is never above the total" awk '$2 > $3 { exit 1 }' ours
is "the last line of the moves is whole" awk '$1 == 4 { d = $2; t = $3 } END { exit !(t > 0 && d == t) }' ours
is "-C: nothing on the other outputs" equal "$(cat out err | wc -c)" 0
cp a.img b.img
"$BIN" -q -C -5 b.img 5>ours
is "-C -5: nothing before SIGUSR1" equal "$(wc -c <ours)" 0

cp a.img b.img
"$BIN" --progress=json --json=r.json b.img >out 2>err
is "--progress=json: every line is an object" jq -es 'length > 4 and all(.[]; .phase and .pass > 0 and .done <= .total and .seconds >= 0)' err
is "its bytes are those of the report" equal "$(jq -s '.[-1].bytes' err)" "$(jq .work.bytes_moved r.json)"
is "no progress on standard output" sh -c '! grep -q phase out'
"$BIN" --json a.img >r.json 2>err
is "without a terminal: no progress at all" equal "$(wc -c <err)" 0

# SIGUSR1 turns it on, SIGUSR2 off; neither ends the run. The handlers are there before the report's
# file is opened, and a pipe holds the run at that place until the signal was sent.
cat >signals.py <<'P'
import os, signal, subprocess, sys, time
program, image, fd_sign, *names = sys.argv[1:]
r, w = os.pipe()
os.mkfifo('hold')
p = subprocess.Popen([program, '-q', '--json=hold', '-C', fd_sign + str(w), image], pass_fds=[w])
os.close(w)
want = [getattr(signal, n) for n in names]
while p.poll() is None:
    line = [l for l in open('/proc/%d/status' % p.pid) if l.startswith('SigCgt')]
    mask = int(line[0].split()[1], 16) if line else 0
    if all(mask >> (s - 1) & 1 for s in want):
        break
    time.sleep(0.01)
for s in want:
    p.send_signal(s)
    # taken, before the next one is sent
    while int([l for l in open('/proc/%d/status' % p.pid) if l.startswith('ShdPnd')][0].split()[1], 16):
        time.sleep(0.01)
json = open('hold')
lines = os.fdopen(r).read().splitlines()
json.read()
os.unlink('hold')
assert p.wait() == 0, p.returncode
print(len(lines))
P
signals() { # NAME WANT SIGN SIGNAL...: WANT: "lines" or "none"
	local name=$1 want=$2 n
	image demo c.img
	n=$(python3 signals.py "$BIN" c.img "${@:3}")
	is "$name" test "${n:-x}" -"$([ "$want" = none ] && echo eq || echo gt)" 0
	is "$name: the run was whole" equal "$(fragmented c.img)" 0
}
signals "SIGUSR1 starts it" lines - SIGUSR1
signals "SIGUSR2 stops it" none "" SIGUSR2
signals "SIGUSR1 starts it again" lines "" SIGUSR2 SIGUSR1

if command -v script >/dev/null; then
	image demo d.img
	script -qec "stty cols 40; TERM=xterm $BIN --list 0 d.img >out" /dev/null </dev/null >bar
	is "a bar on a terminal" grep -q "$(printf '\r')move " bar
	is "as wide as it is" sh -c 'tr "\r" "\n" <bar | awk "length > 40 { exit 1 }"'
	is "none of it on standard output" sh -c '! grep -q "$(printf "\r")" out'
else
	skip "the bar on a terminal: no script(1)"
fi
