# Reshard to safetensors: a model's directory if the names are the model's own, else a warning that leads to convert.
source "$TESTS/cli/lib.bash"
said() { # COMMAND...: its notes, warnings and errors, what next says, and what it wrote
  echo "\$ hfshard $*"
  rm -rf out
  COLUMNS=1000 "$HFSHARD" "$@" 2>&1 | grep -E '^note|^warning|^next|error|hint|  tensor ' || true
  [ ! -e out ] || ls out
}
dcp() { # OUT [EXPRESSION]: a DCP of the model, with its names so rewritten, and without a record
  rm -rf in
  cp -r hf in
  rm in/config.json
  [ $# -lt 2 ] || python3 "$TESTS/cli/rename_tensors.py" in/model.safetensors "$2"
  "$HFSHARD" convert in "$1" --to dcp --quiet >/dev/null 2>&1
  rm "$1"/*.json
}
example qwen3 hf
dcp whole
dcp part "None if 'layers.0.mlp' in n else n"
dcp lora "n.replace('layers.1.mlp.up_proj.weight', 'layers.1.mlp.up_proj.lora_A.default.weight')"
dcp more "n.replace('layers.1.mlp.up_proj', 'layers.1.mlp.other')"
dcp below "'model.' + n"
ends convert hf f32 --to safetensors --dtype f32
python3 "$TESTS/cli/rename_tensors.py" f32/model.safetensors "'_orig_mod.' + n"
python3 "$TESTS/support/tiny_dcp.py" compiled --model f32/model.safetensors
echo "-- the model's own names"
said reshard whole out --to safetensors --config hf
cmp hf/config.json out/config.json
"$HFSHARD" diff hf out | tail -1
"$HFSHARD" verify out whole
said reshard whole out --to safetensors
said reshard part out --to safetensors --config hf
said reshard part out --to safetensors --config hf --include '*'
said reshard lora out --to safetensors --config hf
said reshard more out --to safetensors --config hf
echo "-- below a key, and inside wrappers"
for source in below compiled; do
  said reshard $source out --to safetensors --config hf
  said convert $source out --to safetensors --config hf
  said reshard $source out --to dcp --config hf
  "$HFSHARD" diff $source out | tail -1
done
mkdir other
sed 's/"hidden_size": *[0-9]*/"hidden_size": 52/' hf/config.json >other/config.json
said reshard below out --config other
echo "-- MaxText's names"
ends convert hf maxtext
said reshard maxtext out --to safetensors
"$HFSHARD" diff hf out | tail -2
"$HFSHARD" diff out hf | tail -2
rm out/hfshard*.json
noted diff out hf
said convert maxtext out --to safetensors
said reshard maxtext out --to dcp
rm maxtext/0/*.json
said reshard maxtext out --to safetensors --config hf
echo "-- a step beside other arrays is not MaxText's"
python3 - <<'P'
import json, struct
header = {"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}, "step": {"dtype": "I32", "shape": [], "data_offsets": [8, 12]}}
text = json.dumps(header).encode()
open("pair.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + bytes(12))
P
ends convert pair.safetensors pair --scheme hf --to orbax
find pair -name 'hfshard*.json' -delete
said reshard pair out
