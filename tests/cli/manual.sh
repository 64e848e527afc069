# The manual pages: one of each command, that troff and mandoc take without a warning, 80 columns wide.
source "$TESTS/cli/lib.bash"
mkdir pages
"$HFSHARD" man --into pages
ls pages
"$HFSHARD" man mappings check | cmp - pages/hfshard-mappings-check.1
for page in pages/*; do
  [ "$("$HFSHARD" help $(basename "$page" .1 | sed 's/^hfshard-*//; s/-/ /g') | head -n 1 | wc -c)" -gt 1 ] || echo "no command: $page"
  if command -v groff >/dev/null; then groff -ww -man -Tascii "$page" 2>&1 >/dev/null; fi
  if command -v mandoc >/dev/null; then mandoc -Tlint -W warning "$page" || true; fi
  if command -v man >/dev/null; then MANWIDTH=80 man -l "$page" 2>&1 | col -b | awk -v page="$page" 'length > 80 {print page ": " $0}'; fi
done
for tool in groff mandoc man; do command -v $tool >/dev/null || echo "PEER MISSING $tool" >&2; done
show man convret
show man --into nowhere
ln -sf /dev/full pages/hfshard-clean.1
show man --into pages
rm pages/hfshard-clean.1
ln -sf /dev/full pages/hfshard-convert.1  # longer than a buffer
show man --into pages
