# More notes and warnings, each with a case that has it: on trees, configs and torch's checkpoints.
source "$TESTS/cli/lib.bash"
add() { # FILE NAME: adds a tensor to a safetensors file
  python3 - "$@" <<'P'
import json, struct, sys
with open(sys.argv[1], "rb") as file:
    header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    data = file.read()
header[sys.argv[2]] = {"dtype": "U8", "shape": [4], "data_offsets": [len(data), len(data) + 4]}
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
with open(sys.argv[1], "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text + data + b"abcd")
P
}
edit() { # FILE PYTHON: changes `j`, its JSON
  python3 - "$@" <<'P'
import base64, json, os, sys
path = sys.argv[1]
j = json.load(open(path)) if os.path.exists(path) else {}
exec(sys.argv[2])
json.dump(j, open(path, "w"))
P
}
tiny() { python3 "$TESTS/support/tiny_dcp.py" "$@"; }
example qwen3 hf

echo "-- a config.json that the model contradicts"
cp -r hf plain
edit plain/config.json 'j["quantization_config"] = {"quant_method": "fp8"}'
noted convert plain plain-tree
noted convert plain plain-files --to safetensors
cp -r hf unknown
edit unknown/config.json 'j["model_type"] = "qwen9"'
noted convert unknown unknown-tree
cp -r hf two-minds
edit two-minds/config.json 'j["architectures"] = ["LlamaForCausalLM"]'
noted convert two-minds two-minds-tree
example gemma biased
edit biased/config.json 'j["attention_bias"] = True'
noted convert biased biased-alone --to safetensors
add biased/model.safetensors extra.weight
noted convert biased biased-files --to safetensors
cp -r hf rotary
add rotary/model.safetensors model.rotary_emb.inv_freq
noted convert rotary rotary-tree

echo "-- a tree without a record"
"$HFSHARD" convert hf tree --quiet
cp -r tree recorded
rm tree/0/hfshard.json
noted inspect tree --load-mesh fsdp=2
cp -r tree sharded
edit sharded/0/items/_sharding '
for name in ("decoder_norm.scale", "layers.pre_self_attention_layer_norm.scale"):
    key = base64.b64encode(b"params.params.decoder." + name.encode()).decode()
    j[key] = json.dumps({"sharding_type": "NamedSharding", "shape": [2], "axis_names": ["fsdp"], "partition_spec": ["fsdp"]})'
noted reshard sharded meshed --mesh data=2 --chunk-bytes 64
noted reshard sharded meshed-alike --mesh fsdp=2
sed -i 's/\[\\"fsdp\\"\]}/[[\\"fsdp\\", \\"tensor\\"]]}/g' sharded/0/items/_sharding
noted reshard sharded meshed-on-one-axis --mesh fsdp=2
cp -r tree keyed
edit keyed/0/items/_METADATA '
for name, node in j["tree_metadata"].items():
    if "decoder_norm" in name:
        node["value_metadata"]["value_type"] = "scalar"
none = {"skip_deserialize": True, "value_type": "None"}
j["tree_metadata"]["(\u0027gone\u0027,)"] = {"key_metadata": [{"key": "gone", "key_type": 2}], "value_metadata": none}'
mkdir keyed/0/items/array_metadatas
edit keyed/0/items/array_metadatas/process_0 '
j["array_metadatas"] = [{"array_metadata": {"param_name": "step", "ext_metadata": {"random_key_impl": "fry"}}}]'
noted reshard keyed keyed-torch --to dcp
noted diff keyed keyed-torch

echo "-- steps and their trees"
noted reshard recorded stepless --to dcp --exclude step
noted diff recorded stepless
noted reshard recorded stepless-run --exclude step
noted diff recorded stepless-run
noted diff hf tree
for place in two twice; do
  cp -r recorded $place
  mkdir -p $place/0/other/w
  edit $place/0/other/_METADATA '
key = [{"key": "w", "key_type": 2}]
j.update(use_ocdbt=False, tree_metadata={"(\u0027w\u0027,)": {"key_metadata": key, "value_metadata": {"skip_deserialize": False, "value_type": "np.ndarray"}}})'
  edit $place/0/other/w/.zarray '
j.update(zarr_format=2, shape=[4], chunks=[4], dtype="|u1", compressor={"id": "blosc"}, fill_value=None, order="C", filters=None)'
  printf abcd >$place/0/other/w/0
done
noted diff two twice
cp -r recorded deleting
cp -r deleting/0/items deleting/0/ema
edit deleting/0/_CHECKPOINT_DELETION 'j["checkpointable_name"] = "ema"'
noted inspect deleting --items items
cp -r recorded steps
for step in 1 2 3 4 5 6 7 8 9 10; do cp -r steps/0 steps/$step; done
"$HFSHARD" plan steps --to dcp 2>&1 | grep 'reading step'

echo "-- what isn't the model's"
"$HFSHARD" convert hf state --scheme maxtext --to safetensors --quiet
add state/model.safetensors opt_state.mu
rm state/hfshard.json state/config.json
"$HFSHARD" convert state state-tree --scheme hf --quiet 2>/dev/null
rm state-tree/0/hfshard.json
noted diff hf state-tree
tiny torch
noted reshard torch one-object --exclude flag --exclude layers.1
noted convert torch arrays --to safetensors --scheme hf
noted diff one-object arrays
"$HFSHARD" convert hf titan --scheme torchtitan --to dcp --quiet
rm titan/hfshard.json titan/config.json
noted convert titan titan-files --scheme hf --to safetensors
sed 's/"tie_word_embeddings": false/"tie_word_embeddings": true/' hf/config.json >tied.json
"$HFSHARD" mappings example qwen3 tied --config tied.json --dtype f32 --quiet >/dev/null
cp -r tied wrapped
rename wrapped 'n.removeprefix("model.").replace("self_attn.", "_orig_mod.self_attn.")'
tiny wrapped-torch --model wrapped/model.safetensors
noted diff wrapped-torch tied
"$HFSHARD" convert tied tied-tree --quiet 2>/dev/null
noted diff wrapped-torch tied-tree
noted diff wrapped-torch tied --exclude layers.0
