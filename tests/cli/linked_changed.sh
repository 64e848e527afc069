# Linked files that were written to since: the index must not find other tensors in them.
source "$TESTS/cli/lib.bash"
example llama in
fill() { # FILE HOW [TIME]
  python3 - "$@" <<'P'
import json, os, struct, sys
path, how = sys.argv[1:3]
with open(path, "rb") as file:
    data = file.read()
length = struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8:8 + length])
body = data[8 + length:]
if how == "values":
    body = body[:-2] + bytes([body[-2] ^ 1, body[-1]])
elif how == "order":  # same names, shapes and size
    notes = {key: header.pop(key) for key in ("__metadata__",) if key in header}
    turned, at = b"", 0
    for key, each in sorted(header.items(), key=lambda item: -item[1]["data_offsets"][0]):
        begin, end = each["data_offsets"]
        each["data_offsets"] = [at, at + end - begin]
        turned, at = turned + body[begin:end], at + end - begin
    body, header = turned, {**notes, **header}
text = json.dumps(header, separators=(",", ":")).encode()
if how == "room":  # in the header, for places with more digits
    length += 64
with open(path + ".new", "wb") as file:
    file.write(struct.pack("<Q", length) + text + b" " * (length - len(text)) + body)
os.replace(path + ".new", path)
P
  touch -d "${3:-2001-01-01}" "$1"
}
fill in/model.safetensors room
"$HFSHARD" link in linked --scheme hf --shards symbolic -q
echo "-- untouched"
show diff linked in
echo "-- other values at the same places"
cp -r in first
fill in/model.safetensors values 2002-02-02
show convert linked values --to safetensors
show reshard linked again --mesh fsdp=2
show diff linked first
echo "-- the same tensors at other places, with the old time and another"
cp first/model.safetensors in/model.safetensors
fill in/model.safetensors order
show verify linked | grep -v linked:
show convert linked order --to safetensors
show diff linked first
fill in/model.safetensors values 2002-02-02
show reshard linked order
echo "-- a record without headers, as before"
rm -r in && mv first in
sed -i '/header_sha256/d' linked/0/hfshard.links.json
show convert linked before --to safetensors
echo "-- linked again"
example llama again-in
"$HFSHARD" link again-in again-out -q
show link again-in again-out --resume 2>&1 | grep -E '^(linked|complete|published|exit)'
echo "-- nothing to link"
told link again-in never --dtype f32
