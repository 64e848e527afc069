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
