# What is said about values that were planted: all facts, on the screen and in JSON.
source "$TESTS/cli/lib.bash"
write() { # FILE DTYPE STRUCT VALUES...: one row of values
  python3 - "$@" <<'P'
import json, struct, sys
path, dtype, kind, *values = sys.argv[1:]
data = b"".join(struct.pack("<" + kind, int(value, 0) if kind == "B" else float(value)) for value in values)
header = json.dumps({"w": {"dtype": dtype, "shape": [len(values)], "data_offsets": [0, len(data)]}}).encode()
open(path, "wb").write(struct.pack("<Q", len(header)) + header + data)
P
}
echo "-- no negative zero and no infinity: 0x80 is NaN, 0x01 the least, 0x7f the largest"
write a.safetensors F8_E5M2FNUZ B 0x00 0x01 0x04 0x7f 0x80 0x00 0x80 0x81
write b.safetensors F8_E5M2FNUZ B 0x00 0x02 0x03 0x7e 0x00 0x80 0x80 0x01
show diff a.safetensors b.safetensors
"$HFSHARD" diff a.safetensors b.safetensors --json | python3 -c '
import json, sys
print(json.dumps(json.load(sys.stdin)["tensors"], indent=1, sort_keys=True))'
echo "-- FP8 and f32 have another dtype; hfshard doesn't round to FP8"
write narrow.safetensors F8_E4M3 B 0x38 0x39 0x01 0x7e 0x7f 0x00
write wide.safetensors F32 f 1.0 1.0625 0.001953125 448 nan 0
told diff narrow.safetensors wide.safetensors
told diff narrow.safetensors wide.safetensors --dtype-aware
