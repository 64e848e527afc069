# inspect counts the model's parameters apart from an optimizer's states, and says who wrote a checkpoint.
source "$TESTS/cli/lib.bash"
python3 - <<'PYTHON'
import json, os, struct
def write(path, tensors):
    header, at = {}, 0
    for name, (dtype, shape, size) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    os.makedirs(os.path.dirname(path))
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + bytes(at))
write("state/model.safetensors", {
    "model.layers.0.weight": ("F32", [3, 5], 60), "model.norm.weight": ("BF16", [5], 10), "model.position_ids": ("I64", [4], 32),
    "optimizer.state.model.layers.0.weight.step": ("F32", [], 4), "optimizer.state.model.layers.0.weight.exp_avg": ("F32", [3, 5], 60),
    "state.model.layers.0.weight.exp_avg_sq": ("F32", [3, 5], 60), "train.opt_state.count": ("I32", [], 4)})
PYTHON
"$HFSHARD" inspect state --summary | grep -v bytes
"$HFSHARD" inspect state --json | grep -o '"[a-z_]*":[0-9]*' | grep -E 'elements|parameters'
echo "-- written by"
example qwen3 in
for to in orbax dcp safetensors; do
  "$HFSHARD" convert in $to --to $to >/dev/null 2>&1
  "$HFSHARD" inspect $to --summary | grep written
done
"$HFSHARD" inspect in --summary | grep written || echo "nothing says it"
# A step with two trees: each is read by the handler of its own name.
mkdir -p run && cp -r orbax/0 run/0 && mv run/0/items run/0/state && cp -r run/0/state run/0/average
sed -i 's/"hfshard"/"another"/' run/0/*/_METADATA
printf '%s' '{"item_handlers":{"average":"a.First","state":"b.Second"},"metrics":{},"custom_metadata":{}}' >run/0/_CHECKPOINT_METADATA
for item in state average; do "$HFSHARD" inspect run --items $item --summary | grep written; done
echo "-- chunks"
"$HFSHARD" inspect in --chunks | grep -A1 'k_norm'
echo "-- one of each"
"$HFSHARD" convert in one --to dcp --scheme hf --include model.norm.weight --quiet >/dev/null 2>&1
"$HFSHARD" inspect one | grep bytes
"$HFSHARD" verify one | cut -d, -f1,2
