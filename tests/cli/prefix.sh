# Names with a prefix, for every target; the record takes it off again, and --prefix off what PyTorch wrote.
"$HFSHARD" mappings example qwen3 hf --quiet >/dev/null
names() { "$HFSHARD" inspect "$1" --json | grep -oE '"(name|path)":"[^"]*norm.weight"' | sort | sed -n '1p;$p'; }
for to in dcp safetensors orbax; do
  echo "--- $to"
  "$HFSHARD" convert hf "$to" --to "$to" --scheme hf --prefix app.model. 2>/dev/null | grep published
  names "$to"
  "$HFSHARD" verify "$to" hf | sed 's/:.*,/:/'
  [ "$to" = safetensors ] || "$HFSHARD" diff hf "$to" | tail -1
done
grep -o '"prefix":"[^"]*"' dcp/hfshard.json
echo "--- back"
"$HFSHARD" convert dcp back --to safetensors 2>/dev/null | grep published
"$HFSHARD" diff hf back
"$HFSHARD" convert orbax other --to dcp --prefix model. 2>/dev/null | grep published
names other
echo "--- what hfshard did not write"
rm dcp/hfshard.json
"$HFSHARD" convert dcp plain --to safetensors --prefix app.model. 2>/dev/null | grep published
"$HFSHARD" diff hf plain
"$HFSHARD" verify plain dcp | sed 's/:.*,/:/'
refused() { "$HFSHARD" "$@" --quiet 2>&1 && echo "not refused: $*" || true; }
refused convert dcp never --to safetensors --prefix model.
refused convert hf never --prefix model.
refused convert hf never --scheme maxtext --to dcp --prefix model.
refused convert hf never --scheme hf --prefix model..
