# Names that tools put around a model's own: wrappers, --prefix, the base model of AutoModel. Adapters are refused.
source "$TESTS/cli/lib.bash"
fresh() { # FAMILY EXPRESSION: its example, with tensors of other names, in `in`
  rm -rf good in out
  example "$1" good
  cp -r good in
  python3 "$TESTS/cli/rename_tensors.py" in/model.safetensors "$2"
}
same() { # OPTIONS: what convert says of the names, and that the result is the model's
  rm -rf out
  "$HFSHARD" convert in out "$@" 2>&1 | grep -E 'wrapper|taken off|base model|repeated|error|hint|tensor  ' || true
  "$HFSHARD" diff good out --quiet >/dev/null && echo "the same model" || echo "another model"
  "$HFSHARD" diff in out --quiet >/dev/null && echo "the same as its source" || echo "not the same as its source"
  "$HFSHARD" verify out in --quiet >/dev/null && echo "verified" || echo "not verified"
}
echo "-- wrappers before every name"
for wrapper in _orig_mod. module. base_model.model. _fsdp_wrapped_module. module._orig_mod. _orig_mod.module.; do
  fresh qwen3 "'$wrapper' + n"
  same
done
echo "-- inside names, in another scheme, as files"
fresh qwen3 "re.sub(r'(layers\.\d+\.)', r'\1_checkpoint_wrapped_module.', n)"
same
same --scheme torchtitan --to dcp
same --to safetensors
"$HFSHARD" mappings check in --quiet | tail -1
echo "-- before some names only"
fresh qwen3 "n if 'norm' in n else 'module.' + n"
show convert in out
fresh qwen3 "n if 'norm' in n else '_orig_mod.' + n"
show convert in out
fresh qwen3 "re.sub(r'layers\.0\.', 'layers._orig_mod.1.', n)"
show convert in out
echo "-- --prefix"
fresh qwen3 "'student.' + n"
ends convert in out
same --prefix student.
same --prefix student. --scheme torchtitan --to dcp
show convert in never --prefix teacher.
echo "-- the base model, as AutoModel saves it"
for family in qwen3 gemma2; do
  fresh $family "n.removeprefix('model.')"
  same
done
fresh qwen3_vl "n.removeprefix('model.')"
same
example llama4 plain
ends convert plain plain-out
echo "-- without a head"
fresh qwen3 "None if 'lm_head' in n else n"
show convert in out
sed -i 's/"tie_word_embeddings": false/"tie_word_embeddings": true/' in/config.json
ends convert in out
echo "-- an adapter that isn't merged"
fresh qwen3 "n.replace('q_proj.', 'q_proj.base_layer.')"
show convert in out
show convert in out --scheme hf
fresh qwen3 "'base_model.model.' + n.replace('q_proj.weight', 'q_proj.lora_A.default.weight')"
show mappings check in
echo "-- the member of a trainer's module, in every scheme"
for words in "" "--to safetensors" "--to dcp --scheme hf"; do
  fresh qwen3 "'model.' + n"
  same $words
done
fresh qwen3 "'net.' + n"
same --to safetensors
echo "-- the base model's names stay with scheme hf"
fresh qwen3 "None if 'lm_head' in n else n.removeprefix('model.')"
sed -i 's/"tie_word_embeddings": false/"tie_word_embeddings": true/' in/config.json
show convert in out --to safetensors
"$HFSHARD" diff in out --quiet >/dev/null && grep -c "\"layers.0.input_layernorm.weight" out/model.safetensors
show convert in out2 --to dcp --scheme hf
fresh qwen3 "None if 'lm_head' in n or '1.mlp' in n else n.removeprefix('model.')"
sed -i 's/"tie_word_embeddings": false/"tie_word_embeddings": true/' in/config.json
show convert in out3 --to safetensors
echo "-- a prefix two and three times, as a release of transformers wrote it"
for times in model. model.model.; do
  fresh qwen3 "'$times' + n if n.startswith('model.') else n"
  same
  same --to safetensors
done
fresh gemma3 "n.replace('language_model.', 'language_model.language_model.')"
same
echo "-- arrays that the model computes"
fresh qwen3 "n.replace('lm_head.weight', 'model.rotary_emb.cos_cached')"
sed -i 's/"tie_word_embeddings": false/"tie_word_embeddings": true/' in/config.json
"$HFSHARD" convert in out 2>&1 | grep -E -A1 'left out|error|doesn'
"$HFSHARD" convert in copy --scheme hf --to safetensors 2>&1 | grep -E -A1 'left out|error|no rule'
echo "-- files without elements"
fresh qwen3 "n"
python3 - in/model.safetensors <<'PY'
import json, struct, sys
with open(sys.argv[1], "r+b") as file:
    length = struct.unpack("<Q", file.read(8))[0]
    header = {name: {**entry, "shape": [0], "data_offsets": [0, 0]} for name, entry in json.loads(file.read(length)).items() if name != "__metadata__"}
    text = json.dumps(header).encode()
    file.seek(0)
    file.write(struct.pack("<Q", len(text)) + text)
    file.truncate()
PY
show convert in out
show convert in out --to safetensors
show convert in out --scheme hf --to dcp --include '*'
echo "-- a trainer's module, with a tensor that isn't the model's"
fresh qwen3 "'net.' + n"
same
python3 - in/model.safetensors <<'P'
import json, struct, sys
data = open(sys.argv[1], "rb").read()
size = struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8:8 + size])
end = len(data) - 8 - size
header["criterion.weight"] = {"dtype": "F32", "shape": [1], "data_offsets": [end, end + 4]}
text = json.dumps(header).encode()
open(sys.argv[1], "wb").write(struct.pack("<Q", len(text)) + text + data[8 + size:] + b"\0\0\0\0")
P
same
same --exclude 'criterion.*'
same --exclude 'criterion.*' --to safetensors
echo "-- an adapter's tensors that are left out"
fresh qwen3 "'model.layers.0.self_attn.q_proj.lora_A.default.weight' if n == 'lm_head.weight' else n"
same
same --exclude '*lora_A*' --to safetensors --scheme hf --include '*'
