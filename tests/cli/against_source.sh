# What `verify OUT SOURCE`, `diff` and `--resume` compare beyond the arrays that are written: copies that were dropped, layers
# whose dtype a stack doesn't have, and copied files.
source "$TESTS/cli/lib.bash"
example llama in
python3 - <<'P'
import json
with open("in/config.json", encoding="utf-8") as file:
    config = json.load(file)
config["tie_word_embeddings"] = True
with open("in/config.json", "w", encoding="utf-8") as file:
    json.dump(config, file)
P
edit() { # DIR TENSOR HOW
  python3 - "$@" <<'P'
import json, struct, sys
folder, name, how = sys.argv[1:]
path = f"{folder}/model.safetensors"
with open(path, "rb") as file:
    data = file.read()
length = struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8:8 + length])
header.pop("__metadata__", None)
raw = {key: data[8 + length:][slice(*each["data_offsets"])] for key, each in header.items()}
if how == "tied":
    raw[name] = raw["model.embed_tokens.weight"]
elif how == "wide":
    count = len(raw[name]) // 2
    values = struct.unpack(f"<{count}H", raw[name])
    raw[name] = struct.pack(f"<{count}I", *((value << 16) + 1 for value in values))
    header[name]["dtype"] = "F32"
else:
    raw[name] = raw[name][:-2] + bytes([raw[name][-2] ^ 1, raw[name][-1]])
body, at = b"", 0
for key in header:
    header[key]["data_offsets"] = [at, at + len(raw[key])]
    body, at = body + raw[key], at + len(raw[key])
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
with open(path, "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text + body)
P
}
edit in lm_head.weight tied
cp -r in other
edit other lm_head.weight changed
"$HFSHARD" convert in tree -q 2>/dev/null
echo "-- the head, which was dropped as a copy of the embedding"
show verify tree in
show verify tree other
echo "-- one layer of a stack in f32"
cp -r in wide
edit wide model.layers.1.mlp.down_proj.weight wide
show diff wide tree
ends diff wide tree --dtype-aware
echo "-- a file that is copied"
echo '{}' >in/tokenizer.json
show verify tree in
show convert in tree --resume
show diff in tree | grep note:
rm in/tokenizer.json
show convert in tree --resume
sed -i 's/{/{"top_k": 1, /' in/generation_config.json
show convert in tree --resume
show diff in tree | grep note: -A1
show diff in in | grep -c note: || true
echo "-- files that only the output has: a copied one, and one that somebody put there"
cp -r in less && rm less/generation_config.json
"$HFSHARD" convert in files --to safetensors -q 2>/dev/null
echo '{}' >files/added_tokens.json
show verify files in
show verify files less
echo "-- config and tokenizer of --config"
cp -r in told
echo '{"told": 1}' >told/tokenizer.json
sed -i 's/"mlp_bias": false/"mlp_bias": false, "initializer_range": 0.5/' told/config.json
"$HFSHARD" convert in told-tree --config told -q 2>/dev/null
show verify told-tree in
"$HFSHARD" convert in named --scheme hf --to dcp -q 2>/dev/null
"$HFSHARD" convert named told-files --to safetensors --config told -q 2>/dev/null
show verify told-files named
sed -i 's/0.5/0.25/' told-files/config.json
show verify told-files named
