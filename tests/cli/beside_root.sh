# What is beside the root that a config finds, and isn't an array, is named as left out.
source "$TESTS/cli/lib.bash"
said() { # COMMAND...: its notes
  rm -rf out
  COLUMNS=1000 "$HFSHARD" "$@" 2>&1 | grep -E '^note|error'
}
example qwen3 in
ends convert in hf --to safetensors --dtype f32
echo "-- objects of a DCP"
python3 "$TESTS/support/tiny_dcp.py" dcp --model hf/model.safetensors
said convert dcp out --to safetensors --config hf
said convert dcp out --to dcp --config hf
said convert dcp out --to orbax --config hf --scheme maxtext
echo "-- texts and empty nodes of a tree of Orbax"
cp -r hf nested
rm nested/config.json
python3 "$TESTS/cli/rename_tensors.py" nested/model.safetensors "'state.' + n"
ends convert nested orbax --to orbax --scheme hf --include '*'
find orbax -name 'hfshard*.json' -delete
python3 - <<'P'
import glob, json
path, = glob.glob("orbax/0/*/_METADATA")
metadata = json.load(open(path))
for name, kind in (("none", "None"), ("empty", "Dict")):
    metadata["tree_metadata"][f"('{name}',)"] = {"key_metadata": [{"key": name, "key_type": 2}],
                                                 "value_metadata": {"value_type": kind, "skip_deserialize": True}}
json.dump(metadata, open(path, "w"))
P
said convert orbax out --to safetensors --config hf
said convert orbax out --config hf
echo "-- a root that the tree doesn't have"
told convert orbax out --to safetensors --config hf --root nothing
told reshard orbax out --root state.nothing
