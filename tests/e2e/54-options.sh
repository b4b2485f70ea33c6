# SPDX-License-Identifier: GPL-2.0-or-later
# --help, man page, completions and the parser know the same options.
. "$(dirname "$0")/lib.sh"
cd "$T" || exit 1
made=$top/build/completions

# options as "-n" and "--mode", one a line
"$BIN" --help | sed -n '/^  /p' | grep -oE '^ +(-[a-zA-Z], )?(--[a-z-]+|-[a-zA-Z])' |
	grep -oE -- '--?[a-zA-Z-]+' | sort -u >help
is "--help has options" test "$(wc -l <help)" -gt 25
sed -n '/^\.Sh OPTIONS/,/^\.Sh EXIT CODE/p' "$top/man/scaledefrag-offline.8" | grep '^\.It Fl' |
	sed 's/^\.It Fl //; s/ Ns.*//; s/ Ar.*//; s/ , / /' | tr ' ' '\n' | sed 's/^/-/' | sort -u >man
is "the man page has the same" diff help man
sed -n '/^\.Sh SYNOPSIS/,/^\.Sh DESCRIPTION/p' "$top/man/scaledefrag-offline.8" |
	grep -oE 'Fl -?[a-zA-Z-]+( \| -[a-z]+)?' | sed 's/^Fl //; s/ | / /' | tr ' ' '\n' |
	sed '/^[a-z]\{2,\}$/s/./&\n/g' | sed '/^$/d; s/^/-/' | sort -u >synopsis
is "its synopsis too" diff help synopsis

offered() { # WORD...: what bash offers for the last one
	COMP_WORDS=(scaledefrag-offline "$@") COMP_CWORD=$# COMPREPLY=()
	_scaledefrag_offline
	printf '%s\n' "${COMPREPLY[@]}"
}
. "$made/bash"
offered - | sort -u >bash
is "bash offers the same" diff help bash
grep -oE "^	'\*?--?[a-zA-Z-]+" "$made/zsh" | tr -d "\t'*" | sed 's/-$//' | sort -u >zsh
is "zsh offers the same" diff help zsh
grep '^complete' "$made/fish" | grep -oE -- '(-s [a-zA-Z]|-l [a-z-]+)' | sed 's/-s /-/; s/-l /--/' | sort -u >fish
is "fish offers the same" diff help fish
unknown=$(while read -r o; do
	"$BIN" "$o" 2>&1 </dev/null | grep -q 'unknown option' && echo "$o"
done <help)
is "the parser knows them" equal "$unknown" ""
is "and no others" sh -c '"$0" --no-such-option x 2>&1 | grep -q "unknown option"' "$BIN"

image clean disk.img
: >'a file'
is "bash: an option begun" equal "$(offered --mo)" --mode
is "bash: a value" equal "$(offered --mode fr)" free
is "bash: a value behind =" equal "$(offered --progress = j)" json
is "bash: nothing is known of a size" equal "$(offered --budget 1)" ""
is "bash: an image" equal "$(offered dis)" disk.img
is "bash: names with blanks stay whole" equal "$(offered -c a)" "a file"
is "bash: a file to write to" equal "$(offered --report dis)" disk.img
if command -v zsh >/dev/null; then
	is "zsh takes its file" zsh -n "$made/zsh"
	cat >drive.zsh <<'Z'
zmodload zsh/zpty
zpty z 'TERM=dumb zsh -f -i'
zpty -w z 'autoload -Uz compinit; fpath=($PWD $fpath); compinit -u -D; bindkey "^I" complete-word'
zpty -w z 'scaledefrag-offline() { print "GOT $*" }'
zpty -w z $'scaledefrag-offline --mode fr\t'
zpty -w z 'exit'
while zpty -r z line; do print -r -- "$line"; done
zpty -d z
Z
	cp "$made/zsh" _scaledefrag-offline
	is "zsh: a value" sh -c 'timeout 60 zsh -f drive.zsh 2>&1 | grep -q "^GOT --mode free"'
else
	skip "zsh is not here"
fi
if command -v fish >/dev/null; then
	fishy() { HOME=$T fish --no-config -c "source $made/fish; complete -C '$1'" | cut -f1; }
	is "fish: an option begun" equal "$(fishy 'scaledefrag-offline --mo')" --mode
	is "fish: a value" equal "$(fishy 'scaledefrag-offline --mode fr')" free
else
	skip "fish is not here"
fi

# make install puts everything where it belongs
if make -s -C "$top" install DESTDIR="$T/root" PREFIX=/usr >/dev/null 2>install.err; then
	for f in sbin/scaledefrag-offline share/man/man8/scaledefrag-offline.8 \
		share/doc/scaledefrag-offline/json.md \
		share/bash-completion/completions/scaledefrag-offline \
		share/zsh/site-functions/_scaledefrag-offline \
		share/fish/vendor_completions.d/scaledefrag-offline.fish; do
		is "make install: $f" test -s "$T/root/usr/$f"
	done
else
	not_ok "make install"
	sed 's/^/# /' install.err
fi
