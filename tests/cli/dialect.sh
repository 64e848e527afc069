# Names as the modules of transformers have them, and back: by the record, by a config, and from one scheme to another.
"$HFSHARD" mappings example qwen3_moe hf --quiet >/dev/null
names() { "$HFSHARD" inspect "$1" --json | grep -oE '"(name|path)":"[^"]*"' | sort | sed -n '1,5p'; }
for to in dcp safetensors orbax; do
  echo "--- $to"
  "$HFSHARD" convert hf "$to" --to "$to" --scheme hf --dialect modules 2>/dev/null | grep -E "published|family"
  names "$to"
  "$HFSHARD" verify "$to" hf | sed 's/:.*,/:/'
done
grep -o '"dialect":"[^"]*"' dcp/hfshard.json
"$HFSHARD" diff hf dcp | tail -2
"$HFSHARD" plan hf --to dcp --dialect modules | grep family
echo "--- back"
"$HFSHARD" convert dcp back --to safetensors 2>/dev/null | grep published
"$HFSHARD" diff hf back | tail -1
echo "--- what hfshard did not write"
"$HFSHARD" convert hf theirs --to dcp --dialect modules --prefix model. --quiet >/dev/null
rm theirs/hfshard.json theirs/config.json
"$HFSHARD" convert theirs ours --to safetensors --prefix model. --config hf 2>/dev/null | grep published
"$HFSHARD" diff hf ours | tail -1
"$HFSHARD" convert hf files --to dcp --quiet >/dev/null
rm files/hfshard.json files/config.json
"$HFSHARD" convert files again --to safetensors --config hf 2>/dev/null | grep published
"$HFSHARD" diff hf again | tail -1
cmp hf/config.json again/config.json
echo "--- from and to other schemes"
"$HFSHARD" convert hf maxtext --quiet >/dev/null
"$HFSHARD" convert maxtext modules --to dcp --dialect modules 2>/dev/null | grep published
"$HFSHARD" diff dcp modules | tail -1
"$HFSHARD" convert modules titan --to dcp --scheme torchtitan 2>/dev/null | grep family
"$HFSHARD" convert modules plain --to safetensors 2>/dev/null | grep family
"$HFSHARD" diff hf plain | tail -1
echo "--- a Hugging Face directory that has such names, with its record and without"
for record in with without; do
  [ $record = with ] || rm safetensors/hfshard.json
  "$HFSHARD" convert safetensors "own-$record" --to safetensors --scheme hf --dialect files 2>&1 | grep -E "family|names"
  "$HFSHARD" diff hf "own-$record" | tail -1
  "$HFSHARD" mappings check safetensors
  "$HFSHARD" convert safetensors "tree-$record" 2>/dev/null | grep family
  "$HFSHARD" diff "tree-$record" maxtext | tail -1
  "$HFSHARD" verify "tree-$record" safetensors | sed 's/:.*,/:/'
  "$HFSHARD" convert "tree-$record" "back-$record" --to safetensors 2>/dev/null | grep family
  "$HFSHARD" diff hf "back-$record" | tail -1
  for other in hf maxtext titan dcp files; do "$HFSHARD" diff safetensors $other 2>&1 | grep -E "names|compared|equal"; done
done
echo "--- and one that has some of both"
"$HFSHARD" convert hf half --to safetensors --include 'model.layers.1.*' --quiet >/dev/null
"$HFSHARD" convert hf rest --to safetensors --dialect modules --exclude 'model.layers.1.*' --quiet >/dev/null
mv rest/model.safetensors half/model-rest.safetensors && rm half/hfshard.json
for to in orbax safetensors; do "$HFSHARD" convert half never --to $to --quiet 2>&1 | grep -v file; done
"$HFSHARD" mappings check half || true
"$HFSHARD" convert half whole --to safetensors --dialect modules 2>/dev/null | grep family
"$HFSHARD" diff safetensors whole | tail -1
echo "--- a tree that lacks an array"
"$HFSHARD" convert hf whole-tree --scheme hf --dialect modules --quiet >/dev/null
"$HFSHARD" reshard whole-tree lacking --exclude model.layers.0.mlp.experts.down_proj --quiet >/dev/null
"$HFSHARD" convert lacking never --to safetensors --quiet 2>&1 || true
"$HFSHARD" reshard lacking written --to safetensors 2>/dev/null | grep family
echo "--- rules"
"$HFSHARD" mappings show mixtral --scheme hf --dialect modules
"$HFSHARD" mappings check hf --scheme hf --dialect modules
echo "--- refused"
refused() { "$HFSHARD" "$@" --quiet 2>&1 && echo "not refused: $*" || true; }
refused convert hf never --dialect modules
refused convert hf never --to dcp --scheme torchtitan --dialect modules
refused convert hf never --to dcp --dialect module
refused convert hf never --to dcp --dialect modules --with vision
refused mappings show qwen3 --scheme hf
refused mappings show flux --scheme hf --dialect modules
"$HFSHARD" mappings example flux flux --quiet >/dev/null
refused convert flux never --to dcp --dialect modules
