# Notes of diff: each once, on stderr, and in the JSON.
source "$TESTS/cli/lib.bash"
mkdir org other
example qwen3 org/model
cp -r org/model other/model
cp -r org/model plain
notes() { # ARGUMENTS: what stderr says, and the notes of the JSON
  echo "\$ hfshard diff $*"
  "$HFSHARD" diff "$@" 2>&1 >/dev/null || true
  "$HFSHARD" diff "$@" --json 2>/dev/null | python3 -c '
import json, sys
for note in json.load(sys.stdin)["notes"]: print("json: " + note)'
}
echo "-- directories with names of models"
notes org/model org/model
notes org/model other/model
"$HFSHARD" convert org/model tree --quiet
notes org/model tree
echo "-- a prefix that was removed"
python3 - org/model/model.safetensors <<'P'
import json, struct, sys
path = sys.argv[1]
data = open(path, "rb").read()
size = struct.unpack("<Q", data[:8])[0]
header = {"outer." + key if key != "__metadata__" else key: value for key, value in json.loads(data[8:8 + size]).items()}
text = json.dumps(header).encode()
open(path, "wb").write(struct.pack("<Q", len(text)) + text + data[8 + size:])
P
rm org/model/*.index.json 2>/dev/null || true
notes org/model other/model
echo "-- a tensor that can't be read"
python3 - other/model/model.safetensors <<'P'
import json, struct, sys
path = sys.argv[1]
data = open(path, "rb").read()
size = struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8:8 + size])
header["model.norm.weight"]["dtype"] = "F99"
text = json.dumps(header).encode()
open(path, "wb").write(struct.pack("<Q", len(text)) + text + data[8 + size:])
P
notes other/model plain --exclude model.norm.weight
