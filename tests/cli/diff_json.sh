# diff --json: everything that is said about a difference in values, in compressed chunks too.
source "$TESTS/cli/lib.bash"
differences() { # A B: each array that differs, one fact a line
  "$HFSHARD" diff "$@" --json --quiet >said.json || true
  python3 - <<'P'
import json
said = json.load(open("said.json"))
print({name: said[name] for name in ("compared_tensors", "compared_bytes", "differing_tensors", "differing_elements")})
for tensor in said["tensors"]:
    if tensor["kind"] == "equal":
        continue
    print(tensor["kind"], tensor["name"])
    for name, value in sorted(tensor.get("values", {}).items()):
        print("  values", name, json.dumps(value))
    for damage in tensor.get("damage", []):
        print("  damage", json.dumps(damage, sort_keys=True))
P
}
example qwen3 in
cp -r in other
size=$(stat -c %s other/model.safetensors)
printf '\001' | dd of=other/model.safetensors bs=1 seek=$((size - 2)) conv=notrunc status=none
printf '\377\377' | dd of=other/model.safetensors bs=1 seek=$((size - 20)) conv=notrunc status=none
echo "-- files"
differences in other
echo "-- compressed chunks"
"$HFSHARD" convert in packed --compress zstd:1 --chunk-bytes 64 --checksum crc32c --quiet >/dev/null
differences packed other
echo "-- damage on one side"
cp -r packed torn
printf '\377' | dd of=torn/0/items/d/00000 bs=1 seek=40 conv=notrunc status=none
differences packed torn
