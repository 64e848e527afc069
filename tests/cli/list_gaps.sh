# Positions in lists are data: of a DCP, no element is left out before one that is kept.
source "$TESTS/cli/lib.bash"
python3 "$TESTS/support/tiny_dcp.py" in
for glob in layers.0 layers.1 'layers.*' optimizer.param_groups.0.lr; do
  rm -rf out
  told reshard in out --exclude "$glob" | grep -vE '^(digest|family|next)'
done
python3 "$TESTS/support/tiny_dcp.py" odd --odd
for globs in layers.0 'layers.*'; do
  rm -rf out
  told reshard odd out --exclude "$globs" | grep -vE '^(digest|family|next)'
done
python3 "$TESTS/support/tiny_dcp.py" groups --groups
rm -rf out
ends reshard groups out --exclude '*.weight_decay'
rm -rf out
told convert in out --to dcp --scheme hf --exclude layers.0
told plan in --to dcp --exclude layers.0
"$HFSHARD" reshard in tree --to orbax --exclude layers.0 >/dev/null 2>&1 && echo "orbax: exit 0"
