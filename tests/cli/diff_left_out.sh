# diff of a model and of what a conversion made without some tensors, which the tree has no place for.
source "$TESTS/cli/lib.bash"
# Copies a checkpoint, and adds or replaces tensors: zeros of f32, by name and shape.
with() {
  cp -r "$1" "$2"
  python3 - "$2/model.safetensors" "${@:3}" <<'P'
import json, math, struct, sys
data = open(sys.argv[1], "rb").read()
size = 8 + int.from_bytes(data[:8], "little")
tensors = {}
for name, each in json.loads(data[8:size]).items():
    if name != "__metadata__":
        begin, end = each["data_offsets"]
        tensors[name] = (each["dtype"], each["shape"], data[size + begin:size + end])
for word in sys.argv[2:]:
    name, shape = word.split("=")
    shape = json.loads(shape)
    tensors[name] = ("F32", shape, bytes(4 * math.prod(shape)))
header, values = {}, b""
for name, (dtype, shape, stored) in tensors.items():
    header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(values), len(values) + len(stored)]}
    values += stored
text = json.dumps(header).encode()
open(sys.argv[1], "wb").write(struct.pack("<Q", len(text)) + text + values)
P
}
with "$TESTS/oracle/qwen2.5" in v_head.summary.weight=[1,24] v_head.summary.bias=[1]
echo "-- left out"
ends convert in out --exclude 'v_head.*'
show diff in out
show diff out in
ends convert in fewer --layers separate --exclude 'v_head.*' --exclude 'model.layers.0.mlp.*'
show diff in fewer | grep -E 'DIFFERENT|exit'
echo "-- another tensor, which the record doesn't explain"
with in another value.weight=[2]
told diff another out
ends diff another out --exclude value.weight
ends diff another out --include 'params.params.decoder.*'
echo "-- without the record"
rm out/0/hfshard.json
ends diff in out
ends diff in out --exclude 'v_head.*'
ends diff in out --include 'params.params.decoder.decoder_norm.*'
echo "-- dropped"
with "$TESTS/oracle/qwen2.5" other lm_head.weight=[50,24]
ends convert other dropped --drop lm_head.weight
show diff other dropped
with "$TESTS/oracle/qwen2.5" plain
ends convert plain whole
told diff other whole
ends diff other whole --exclude lm_head.weight
echo "-- eight and nine tensors that no rule has"
with "$TESTS/oracle/qwen2.5" eight x.{1..8}=[1]
with "$TESTS/oracle/qwen2.5" nine x.{1..9}=[1]
told diff eight whole
told diff nine whole
