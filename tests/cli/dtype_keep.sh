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
echo "-- a tree made from f64 is exported as it is stored"
python3 - <<'P'
import json, struct
data = open("in/model.safetensors", "rb").read()
length = struct.unpack("<Q", data[:8])[0]
header, out, payload = json.loads(data[8 : 8 + length]), {}, b""
header.pop("__metadata__", None)
for name, entry in header.items():
    begin, end = entry["data_offsets"]
    codes = struct.unpack(f"<{(end - begin) // 2}H", data[8 + length + begin : 8 + length + end])
    values = [struct.unpack("<f", struct.pack("<I", code << 16))[0] for code in codes]
    out[name] = {"dtype": "F64", "shape": entry["shape"], "data_offsets": [len(payload), len(payload) + 8 * len(values)]}
    payload += struct.pack(f"<{len(values)}d", *values)
text = json.dumps(out).encode()
text += b" " * (-len(text) % 8)
open("in/model.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + payload)
P
"$HFSHARD" convert in f64 --quiet >/dev/null
"$HFSHARD" convert f64 f64-back --to safetensors --quiet >/dev/null
dtypes f64-back
"$HFSHARD" convert in f64-cut --dtype bf16 --quiet >/dev/null
"$HFSHARD" convert f64-cut f64-cut-back --to safetensors --quiet >/dev/null
dtypes f64-cut-back
config f64-cut-back
echo "-- without a record: a config.json that states a dtype, that of the text part, or none"
example qwen3_vl whole
"$HFSHARD" convert whole run --dtype f32 --quiet >/dev/null
rm run/0/hfshard.json
for states in top text nothing; do
  rm -rf stated stated-back
  cp -r whole stated
  python3 - $states <<'P'
import json
import sys

config = json.load(open("stated/config.json"))
for part in (config, config["text_config"]):
    part.pop("dtype", None)
    part.pop("torch_dtype", None)
if sys.argv[1] != "nothing":
    (config if sys.argv[1] == "top" else config["text_config"])["dtype"] = "bfloat16"
json.dump(config, open("stated/config.json", "w"))
P
  "$HFSHARD" convert run stated-back --to safetensors --config stated 2>/dev/null | said
  dtypes stated-back
done
