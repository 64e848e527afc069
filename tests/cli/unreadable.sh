# Entries of a header whose dtype nobody knows. The rest of the file is sound, and --exclude leaves them out.
source "$TESTS/cli/lib.bash"
spoil() { # DTYPE: the example with one more tensor of this dtype, in `in`
  rm -rf in out
  example qwen3 in
  python3 - in/model.safetensors "$1" <<'PY'
import json, struct, sys
with open(sys.argv[1], "rb") as file:
    length = struct.unpack("<Q", file.read(8))[0]
    header, data = json.loads(file.read(length)), file.read()
header["optim.bad"] = {"dtype": sys.argv[2], "shape": [3], "data_offsets": [len(data), len(data) + 8]}
text = json.dumps(header).encode()
with open(sys.argv[1], "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text + data + bytes(8))
PY
}
for dtype in "" F7; do
  spoil "$dtype"
  show inspect in --filter 'optim*'
  ends inspect in --data
  show convert in out
  ends convert in out --exclude 'optim*'
  ends verify out in
  ends verify out
done
example qwen3 good
ends diff out good
echo "-- with an index that lists it"
python3 - <<'PY'
import json, struct
with open("in/model.safetensors", "rb") as file:
    names = [name for name in json.loads(file.read(struct.unpack("<Q", file.read(8))[0])) if name != "__metadata__"]
with open("in/model.safetensors.index.json", "w") as file:
    json.dump({"weight_map": {name: "model.safetensors" for name in names}}, file)
PY
rm -rf out
show convert in out
ends convert in out --exclude optim.bad
ends convert in files --scheme hf --to safetensors --exclude optim.bad
ends diff files good
echo "-- damaged in another way"
spoil F7
truncate -s -1 in/model.safetensors
show convert in never --exclude 'optim*'
echo "-- several"
example qwen3 several
python3 - several/model.safetensors <<'PY'
import json, struct, sys
with open(sys.argv[1], "rb") as file:
    header, data = json.loads(file.read(struct.unpack("<Q", file.read(8))[0])), file.read()
for name in ("optim.bad", "optim.worse"):
    header[name] = {"dtype": "F7", "shape": [3], "data_offsets": [len(data), len(data) + 8]}
    data += bytes(8)
text = json.dumps(header).encode()
with open(sys.argv[1], "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text + data)
PY
show inspect several --data --filter 'optim*'
"$HFSHARD" inspect several --json | grep -o '"unreadable":[^]]*]'
