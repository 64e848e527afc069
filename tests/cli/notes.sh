# Notes on what an output has, lacks or changes, each with a case that has it. `plan`'s own are in golden/plans.txt.
source "$TESTS/cli/lib.bash"
example qwen3 hf

echo "-- exports say what the checkpoint never had, or only in part"
noted convert hf part --include 'model.layers.*'
noted convert part part-back --to safetensors
noted convert hf cut --vocab 20
noted convert cut cut-back --to safetensors
example gemma gemma
noted convert gemma gemma-out
noted convert gemma-out gemma-back --to safetensors
noted convert gemma-out gemma-exact --to safetensors --dtype f32

echo "-- diff says what it doesn't compare"
cp -r hf renamed
rename renamed '"opt_state.mu." + n if "mlp" in n else "params." + n'
rm renamed/config.json
noted convert renamed state --scheme hf
noted diff hf state
cp -r hf other
rename other '"x." + n'
rm other/config.json
noted convert other other-out --scheme hf
noted diff other-out state
"$HFSHARD" mappings example qwen3_5 towers --with vision --quiet >/dev/null 2>&1
noted convert towers text
noted diff towers text
noted convert towers whole --with vision
noted diff towers whole

echo "-- a step with two trees"
cp -r cut two
cp -r two/0/items two/0/other
cp -r two twice
noted diff two twice
noted diff two twice --items other
noted reshard two one
noted reshard two both --items all
ls both/0

echo "-- names that hfshard reads as others"
cp -r hf wrapped
rename wrapped '"module._orig_mod." + n'
noted convert wrapped unwrapped --to safetensors
ends diff unwrapped hf
cp -r hf pair
python3 - pair/model.safetensors <<'PY'
import json, struct, sys
with open(sys.argv[1], "rb") as file:
    header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    data = file.read()
begin, end = header.pop("lm_head.weight")["data_offsets"]
for name, entry in header.items():
    if name != "__metadata__" and entry["data_offsets"][0] >= end:
        entry["data_offsets"] = [place - (end - begin) for place in entry["data_offsets"]]
header["__metadata__"] = {"format": "pt", "lm_head.weight": "model.embed_tokens.weight"}
text = json.dumps(header).encode()
with open(sys.argv[1], "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text + data[:begin] + data[end:])
PY
noted convert pair pair-out
noted convert hf hf-out

echo "-- metadata of an index, other than its counts"
"$HFSHARD" mappings example qwen3 indexed --shard-bytes 8KiB --quiet >/dev/null
sed -i 's/"metadata": {/"metadata": {"total_parameters": 9, "origin": "a merge",/' indexed/model.safetensors.index.json
noted convert indexed indexed-out
noted diff indexed hf

echo "-- a factor that is a power of two is exact in bf16, and not in f16"
cp hf/config.json factor.json
sed -i 's/"head_dim": 10/"head_dim": 16/; s/"model_type": "qwen3"/"model_type": "llama"/; s/Qwen3/Llama/' factor.json
for dtype in bf16 f16; do
  "$HFSHARD" mappings example llama factor-$dtype --config factor.json --dtype $dtype --quiet >/dev/null
  noted convert factor-$dtype factor-tree-$dtype
  noted convert factor-tree-$dtype factor-back-$dtype --to safetensors
done

echo "-- a config with fewer layers than the files"
cp -r hf longer
sed -i 's/"num_hidden_layers": 3/"num_hidden_layers": 2/' longer/config.json
noted convert longer longer-out --to safetensors
noted convert longer shorter --to safetensors --exclude '*.layers.2.*'
noted convert longer headless --to safetensors --exclude '*.layers.2.*' --exclude lm_head.weight
