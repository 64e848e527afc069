# A tree with the names of files: Qwen3-VL-MoE's experts in both orders, told by their shapes as in a directory of files.
source "$TESTS/cli/lib.bash"
example qwen3_vl published
mkdir swapped
cp published/*.json swapped
python3 - <<'P'
import json
data = open("published/model.safetensors", "rb").read()
begin = 8 + int.from_bytes(data[:8], "little")
header, body = json.loads(data[8:begin]), bytearray(data[begin:])
for name, facts in header.items():
    if not name.endswith((".gate_up_proj", ".down_proj")) or len(facts["shape"]) != 3:
        continue
    (experts, rows, cols), (first, end) = facts["shape"], facts["data_offsets"]
    old = memoryview(bytes(body[first:end])).cast("H", shape=(experts, rows, cols))
    new = b"".join(old[e, r, c].to_bytes(2, "little") for e in range(experts) for c in range(cols) for r in range(rows))
    body[first:end], facts["shape"] = new, [experts, cols, rows]
text = json.dumps(header).encode()
open("swapped/model.safetensors", "wb").write(len(text).to_bytes(8, "little") + text + body)
P
for order in published swapped; do
  ends convert $order direct-$order
  for format in dcp orbax; do
    echo "-- $order in $format"
    ends convert $order tree --to $format --scheme hf
    find tree -name hfshard.json -delete
    ends convert tree files --to safetensors --config $order
    ends diff published files
    ends convert tree maxtext --config $order
    ends diff direct-$order maxtext
    ends diff direct-published maxtext
    rm -r tree files maxtext
  done
done
