# A model that a config names is checked: every tensor is there with its shape, and every other one is named.
source "$TESTS/cli/lib.bash"
rename() { python3 "$TESTS/cli/rename_tensors.py" "$@"; }
said() { # COMMAND...: its notes and errors, and whether it ended well
  rm -rf out
  COLUMNS=1000 "$HFSHARD" "$@" 2>&1 | grep -E '^note|^warning|error|hint|tensor  ' || true
  [ ! -e out ] || { "$HFSHARD" diff good out --quiet --config good >/dev/null 2>&1 && echo "the model" || echo "something else"; }
}
tree() { # OPTIONS: a DCP without a record, of `in`
  rm -rf dcp
  "$HFSHARD" convert in dcp --to dcp --quiet --include '*' "$@" >/dev/null 2>&1
  rm dcp/*.json
}
fresh() {
  rm -rf in
  cp -r good in
}
example qwen3 good
echo "-- files as they are, scheme hf"
fresh
said convert in out --to safetensors
rename in/model.safetensors "None if 'layers.1.mlp' in n else n"
said convert in out --to safetensors
said convert in out --to dcp
said convert in out --to safetensors --include '*'
said convert in out --to safetensors --exclude 'model.layers.1.*'
fresh
rename in/model.safetensors "n.replace('model.norm', 'model.other')"
said convert in out --to dcp
fresh
rename in/model.safetensors "n.replace('layers.0.mlp.up_proj.weight', 'layers.0.mlp.up_prox.weight') if 'up_' in n else n"
said convert in out --scheme hf
fresh
sed -i 's/"vocab_size": 22/"vocab_size": 20/' in/config.json
said convert in out --to safetensors
fresh
rm in/config.json
said convert in out --to safetensors
echo "-- a DCP with the files' names"
fresh
tree
said convert dcp out --to safetensors --config good
said convert dcp out --to safetensors
rename in/model.safetensors "None if 'layers.1.mlp' in n else n"
tree
said convert dcp out --to safetensors --config good
said convert dcp out --to safetensors --config good --include '*'
fresh
rename in/model.safetensors "'extra.' + n if 'norm.weight' == n[-11:] and 'layers' not in n else n"
tree
said convert dcp out --to safetensors --config good
echo "-- below a key, as accelerate saves it; in wrappers; of the base model"
for prefix in model. state.model._orig_mod. module.; do
  fresh
  tree --prefix $prefix
  said convert dcp out --to safetensors --config good
  said convert dcp out --config good
  said convert dcp out --to dcp --scheme torchtitan --config good
done
fresh
rename in/model.safetensors "re.sub(r'(layers\.\d+\.)', r'\1_fsdp_wrapped_module.', n)"
tree
said convert dcp out --to safetensors --config good
fresh
rename in/model.safetensors "n.removeprefix('model.')"
tree
said convert dcp out --to safetensors --config good
echo "-- one of two, and torchtitan's names below a key"
fresh
python3 - <<'P'
import json, struct
data = open("in/model.safetensors", "rb").read()
length = struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8 : 8 + length])
header.pop("__metadata__", None)
size = len(data) - 8 - length
out = {}
for root, at in (("ema.", 0), ("model.", size)):
    out |= {root + n: e | {"data_offsets": [e["data_offsets"][0] + at, e["data_offsets"][1] + at]} for n, e in header.items()}
text = json.dumps(out).encode()
text += b" " * (-len(text) % 8)
open("in/model.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + data[8 + length :] * 2)
P
tree
said convert dcp out --to safetensors --config good
said convert dcp out --to safetensors --config good --root ema
rm -rf in
"$HFSHARD" convert good in --to safetensors --scheme torchtitan --quiet >/dev/null
rm in/*.json
tree --prefix model.
said convert dcp out --to safetensors --config good
echo "-- an adapter that isn't merged"
fresh
rename in/model.safetensors "'base_model.model.' + n.replace('q_proj.', 'q_proj.base_layer.')"
rm in/config.json
tree
said convert dcp out --to safetensors --config good
echo "-- a config among the files of a DCP"
fresh
tree
cp good/config.json dcp
said convert dcp out --to safetensors
echo "-- Orbax with the files' names"
rm -rf orbax
"$HFSHARD" convert good orbax --to orbax --scheme hf --quiet >/dev/null
said convert orbax out --to safetensors --config good
said convert orbax out --config good
find orbax -name 'hfshard*.json' -delete
said convert orbax out --to safetensors --config good
said convert orbax out --config good
said convert orbax out --to safetensors
echo "-- a model that MaxText can't compute: its names are checked all the same"
rm -rf good
example phi3 good
sed -i 's/"hidden_size"/"partial_rotary_factor": 0.75, "hidden_size"/' good/config.json
fresh
said convert in out --to safetensors
tree
said convert dcp out --to safetensors --config good
for names in "'model.' + n" "'_orig_mod.' + n" "None if 'layers.1.mlp' in n else n" "n.replace('qkv_proj.', 'qkv_proj.base_layer.')"; do
  fresh
  rename in/model.safetensors "$names"
  rm in/config.json
  tree
  said convert dcp out --to safetensors --config good
done
fresh
rename in/model.safetensors "n.replace('.1.', '.7.')"
said convert in out --to safetensors
rm -rf good
example llama good
sed -i 's/"attention_bias": false/"attention_bias": true/' good/config.json
fresh
rename in/model.safetensors "n.replace('input_layernorm.weight', 'self_attn.q_proj.bias') if '.1.input' in n else n"
said convert in out --to safetensors
echo "-- a model that no mapping has"
sed -i 's/"model_type": "llama"/"model_type": "newest"/; s/LlamaForCausalLM/NewestForCausalLM/' good/config.json
fresh
said convert in out --to safetensors
tree
said convert dcp out --to safetensors --config good
