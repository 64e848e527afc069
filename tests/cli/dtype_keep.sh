# An f32 training run whose record says bf16: --dtype keep exports what is stored, and a cast is said without it.
source "$TESTS/cli/lib.bash"
dtypes() { # DIRECTORY: the dtypes of its tensors
  python3 - "$1/model.safetensors" <<'P'
import json, struct, sys
data = open(sys.argv[1], "rb").read()
header = json.loads(data[8 : 8 + struct.unpack("<Q", data[:8])[0]])
print(*sorted({value["dtype"] for key, value in header.items() if key != "__metadata__"}))
P
}
config() { grep -oE '"(torch_)?dtype": "[a-z0-9]*"' "$1/config.json" || echo "config.json doesn't say"; }
said() { grep -E '^(cast|decoded) ' || echo "no change of dtype"; }
"$HFSHARD" mappings example qwen3 in --quiet >/dev/null
for scheme in maxtext torchtitan; do
  to=orbax
  [ $scheme = maxtext ] || to=dcp
  echo "-- $scheme"
  "$HFSHARD" convert in $scheme --to $to --scheme $scheme 2>/dev/null | said
  "$HFSHARD" convert in $scheme-f32 --to $to --scheme $scheme --dtype f32 2>/dev/null | said
  "$HFSHARD" convert $scheme-f32 $scheme-plain --to safetensors 2>/dev/null | said
  dtypes $scheme-plain
  config $scheme-plain
  "$HFSHARD" convert $scheme-f32 $scheme-keep --to safetensors --dtype keep 2>/dev/null | said
  dtypes $scheme-keep
  config $scheme-keep
  "$HFSHARD" convert $scheme-keep $scheme-cut --to safetensors --dtype bf16 --quiet >/dev/null
  "$HFSHARD" diff in $scheme-cut --quiet >/dev/null && echo "the same values"
done
echo "-- from one scheme to the other"
"$HFSHARD" convert maxtext-f32 across --to dcp --scheme torchtitan --dtype keep 2>/dev/null | said
"$HFSHARD" convert across across-hf --to safetensors --config in --dtype keep 2>/dev/null | said
dtypes across-hf
echo "-- the same as JSON"
"$HFSHARD" convert in f16 --to safetensors --scheme hf --dtype f16 --json --quiet | grep -oE '"dtypes":\[[^]]*\]'
config f16
echo "-- ids that a tree holds in f32 are integers again, as in the published files"
example deepseek_v4 ids
"$HFSHARD" convert ids ids-tree --quiet >/dev/null
rm ids-tree/0/hfshard.json
"$HFSHARD" convert ids-tree ids-back --to safetensors --config ids --quiet >/dev/null
"$HFSHARD" inspect ids-back | grep -A1 layers.0.ffn.gate.tid2eid | tail -1 | grep -o "i64 *41x9"
