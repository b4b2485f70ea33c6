# SPDX-License-Identifier: GPL-2.0-or-later
# Sourced by the tests of docs/recipes.md, after lib.sh.
mkdir -p "$T/bin" && ln -s "$BIN" "$T/bin/scaledefrag-offline"
PATH=$T/bin:$PATH
looked_at=0

# block N WORDS: the Nth block of code below the heading that has these words
block() {
	awk -v n="$1" -v words="$2" '
		/^## / { in_it = index($0, words); k = 0 }
		/^```$/ { if (on && in_it && k == n) exit; on = 0; next }
		on && in_it && k == n
		/^```sh$/ { on = 1; k++ }' "$top/docs/recipes.md"
}

# recipe WORDS TOOL...: writes recipe.sh, if all tools are there; else a skip that is counted
recipe() {
	local words=$1 t
	shift
	looked_at=$((looked_at + 1))
	block 1 "$words" >"$T/recipe.sh"
	[ -s "$T/recipe.sh" ] || { not_ok "docs/recipes.md has no '$words'"; return 1; }
	for t in "$@"; do
		[ -w "$t" ] || command -v "$t" >/dev/null || { skip "recipe '$words': no $t"; return 1; }
	done
}
run_recipe() { (cd "$T" && timeout 300 sh recipe.sh); }
