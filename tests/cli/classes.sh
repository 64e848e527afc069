# Models whose class has no output head or other layers, parts that no rule knows, and what errors say about sizes and names.
source "$TESTS/cli/lib.bash"
rename() { python3 "$TESTS/cli/rename_tensors.py" "$@"; }
said() { # COMMAND...: its notes and errors
  rm -rf out
  echo "\$ $*"
  COLUMNS=1000 "$HFSHARD" "$@" 2>&1 | grep -E '^note|^warning|error|hint|tensor  |^published' | sed 's/^published.*/published/' || true
}
config() { # KEY VALUE: sets a key of in/config.json
  python3 -c 'import json, sys; c = json.load(open("in/config.json")); c[sys.argv[1]] = json.loads(sys.argv[2]); json.dump(c, open("in/config.json", "w"))' "$@"
}
edit() { # < PYTHON: changes the `header` and `payload` of in/model.safetensors
  python3 -c '
import json, struct, sys
path = "in/model.safetensors"
data = open(path, "rb").read()
length = struct.unpack("<Q", data[:8])[0]
names = {"header": json.loads(data[8 : 8 + length]), "payload": data[8 + length :]}
exec(sys.stdin.read(), names)
text = json.dumps(names["header"]).encode()
text += b" " * (-len(text) % 8)
open(path, "wb").write(struct.pack("<Q", len(text)) + text + names["payload"])'
}
fresh() {
  rm -rf in
  example "$1" in
}
echo "-- a classifier and a base model have no output head; a language model has one"
fresh qwen3
rename in/model.safetensors "n.replace('lm_head', 'score')"
said convert in out --to safetensors
config architectures '["Qwen3ForSequenceClassification"]'
said convert in out --to safetensors
said convert in out
config architectures '["GPT2LMHeadModel"]'
said convert in out --to safetensors
config architectures '["Qwen3Model"]'
rename in/model.safetensors "None if 'score' in n else n.replace('model.', '')"
said convert in out --to safetensors
rename in/model.safetensors "None if n == 'norm.weight' else n"
said convert in out --to safetensors
fresh qwen3_vl
config architectures '["Qwen3VLMoeModel"]'
rename in/model.safetensors "None if 'lm_head' in n else n.removeprefix('model.')"
said convert in out --to safetensors
echo "-- layers without experts among those with experts"
fresh qwen3_moe
config mlp_only_layers '[1]'
rename in/model.safetensors "n if '.1.mlp.' not in n else n.replace('experts.0.', '') if 'experts.0.' in n else None"
said convert in out
said convert in out --to dcp --scheme torchtitan
said convert in out --to safetensors
echo "-- a vision tower with a hole"
fresh qwen2_vl
edit <<'P'
for block in range(4):
    for name in ("attn.qkv", "attn.proj", "mlp.fc1", "mlp.fc2"):
        header[f"visual.blocks.{block}.{name}.weight"] = {"dtype": "BF16", "shape": [1], "data_offsets": [len(payload), len(payload) + 2]}
        payload += b"\0\0"
P
said convert in out --to safetensors
rename in/model.safetensors "None if 'blocks.2.mlp' in n else n"
said convert in out --to safetensors
echo "-- names outside of the prefix"
fresh qwen3
rename in/model.safetensors "n if 'lm_head' in n else 'net.' + n"
said convert in out --prefix net.
said convert in out --prefix net. --exclude lm_head.weight
said convert in out --prefix net. --include 'model.*'
echo "-- sizes that can't be right together"
fresh qwen3
edit <<'P'
head = header["lm_head.weight"]
row = 2 * head["shape"][1]
begin, end = head["data_offsets"]
payload = payload[:begin] + payload[end:] + payload[begin:end] + bytes(row)
for entry in header.values():
    if isinstance(entry.get("data_offsets"), list) and entry["data_offsets"][0] > begin:
        entry["data_offsets"] = [at - (end - begin) for at in entry["data_offsets"]]
head["shape"][0] += 1
head["data_offsets"] = [len(payload) - row - (end - begin), len(payload)]
P
said convert in out
config vocab_size 23
said convert in out
said convert in out --scheme hf --to safetensors --include '*'
fresh qwen3
config num_key_value_heads 4
said convert in out
echo "-- fewer layers, and misspelled names"
fresh qwen3
rename in/model.safetensors "None if '.2.' in n else n"
said convert in out
fresh gpt_oss
rename in/model.safetensors "n.replace('down_proj_bias', 'down_projx_bias')"
said convert in out
fresh qwen3
rename in/model.safetensors "n.replace('lm_head', 'lm_hed')"
said convert in out
