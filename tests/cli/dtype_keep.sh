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
said() { grep -E '^(cast|decoded) ' || echo "no change of dtype"; }
"$HFSHARD" mappings example qwen3 in --quiet >/dev/null
for scheme in maxtext torchtitan; do
  to=orbax
  [ $scheme = maxtext ] || to=dcp
  echo "-- $scheme"
  "$HFSHARD" convert in $scheme --to $to --scheme $scheme --quiet | said
  "$HFSHARD" convert in $scheme-f32 --to $to --scheme $scheme --dtype f32 --quiet | said
  "$HFSHARD" convert $scheme-f32 $scheme-plain --to safetensors --quiet | said
  dtypes $scheme-plain
  "$HFSHARD" convert $scheme-f32 $scheme-keep --to safetensors --dtype keep --quiet | said
  dtypes $scheme-keep
  "$HFSHARD" convert $scheme-keep $scheme-cut --to safetensors --dtype bf16 --quiet >/dev/null
  "$HFSHARD" diff in $scheme-cut --quiet >/dev/null && echo "the same values"
done
echo "-- from one scheme to the other"
"$HFSHARD" convert maxtext-f32 across --to dcp --scheme torchtitan --dtype keep --quiet | said
"$HFSHARD" convert across across-hf --to safetensors --config in --dtype keep --quiet | said
dtypes across-hf
