# Trees with the names of MaxText that no record explains.
source "$TESTS/cli/lib.bash"
example qwen2 hf
echo "-- names of a checkpoint of parameters: the output gets the loader's arguments"
ends convert hf linen --to safetensors --scheme maxtext
cp linen/model.safetensors .
ends convert model.safetensors bare --to dcp
rm bare/hfshard.json
"$HFSHARD" reshard bare tree --to orbax --config hf 2>/dev/null | grep -o "scan_layers=[a-z]* model_name=[^ ]*"
echo "-- names of pretraining: value at the end, and random states next to the weights"
python3 - <<'P'
import json
data = open("linen/model.safetensors", "rb").read()
begin = 8 + int.from_bytes(data[:8], "little")
header, body = json.loads(data[8:begin]), data[begin:]
header.pop("__metadata__", None)
arrays = {name.removeprefix("params.params.") + ".value": facts for name, facts in header.items()}
for name in ("count", "key"):
    arrays[f"decoder.dropout.rngs.params.{name}.value"] = {"dtype": "F32", "shape": [1], "data_offsets": [len(body), len(body) + 4]}
    body += bytes(4)
text = json.dumps(arrays).encode()
open("nnx.safetensors", "wb").write(len(text).to_bytes(8, "little") + text + body)
P
ends convert nnx.safetensors nnx --to dcp
rm nnx/hfshard.json
"$HFSHARD" convert nnx back --to safetensors --scheme hf --config hf 2>&1 | grep -A1 note
ends diff hf back
echo "-- diff reads such names too, below a key as RL writes them, and names what it leaves out"
named() { # FROM OUT PREFIX...: copies a file's tensors, once below each prefix, and adds a value head
  python3 - "$@" <<'P'
import json, sys
source, target, *prefixes = sys.argv[1:]
data = open(source, "rb").read()
begin = 8 + int.from_bytes(data[:8], "little")
header, body = json.loads(data[8:begin]), data[begin:]
header.pop("__metadata__", None)
arrays = {prefix + name: facts for prefix in prefixes for name, facts in header.items()}
arrays = {name: dict(facts) for name, facts in arrays.items()}
arrays["value_head.kernel.value"] = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
out = bytes(4)
for name, facts in arrays.items():
    if name != "value_head.kernel.value":
        first, last = facts["data_offsets"]
        facts["data_offsets"] = [len(out), len(out) + last - first]
        out += body[first:last]
text = json.dumps(arrays).encode()
open(target, "wb").write(len(text).to_bytes(8, "little") + text + out)
P
}
show diff hf nnx
named nnx.safetensors base.safetensors base.
ends convert base.safetensors base --to dcp
rm base/hfshard.json
show diff hf base
show diff base bare --config hf
named nnx.safetensors state.safetensors base. opt_state.mu.base.
ends convert state.safetensors state --to dcp
rm state/hfshard.json
show diff hf state
"$HFSHARD" convert hf stacked -q 2>/dev/null
show diff base stacked --config hf
echo "-- the model twice"
named hf/model.safetensors twice.safetensors model. ema.
ends convert twice.safetensors twice --to dcp
rm twice/hfshard.json
show diff hf twice
named nnx.safetensors top.safetensors "" base.
ends convert top.safetensors top --to dcp
rm top/hfshard.json
show convert top topped --to safetensors --scheme hf --config hf
