# JSON that is none: line and column, in text and in JSON, wherever the file comes from.
source "$TESTS/cli/lib.bash"
good="$TESTS/oracle/qwen3"
mkdir whole
cp "$good"/*.json "$good"/*.safetensors whole
fresh() {
  echo
  echo "-- $1"
  rm -rf in out .out.hfshard
  cp -r whole in
}

fresh "config.json"
printf '{\n  "model_type": "qwen3",\n  "hidden_size": 16,,\n}\n' >in/config.json
show convert in out
show plan in --json
fresh "the index: a name twice, in an object of its own line"
printf '{"weight_map": {\n  "a": "x.safetensors",\n  "a": "x.safetensors"}}\n' >in/model.safetensors.index.json
show plan in
fresh "a mapping file"
printf '{\n  "family": "mine",\n  "model_types": ["mine"\n}\n' >mine.json
show plan in --mapping mine.json
fresh "the header of a safetensors file"
printf '\x20\0\0\0\0\0\0\0%-32s' '{"a": {"dtype": "F32" "shape":[]}' >in/model-00001-of-00002.safetensors
show plan in
fresh "what an interrupted run has left"
"$HFSHARD" convert in out --worker 0/2 --quiet >/dev/null
printf '{"source": "in",\n "options": oh}\n' >.out.hfshard/plan.json
show finalize out
fresh "metadata of a checkpoint, deep within"
"$HFSHARD" convert in out --quiet >/dev/null
sed -i 's/"key_type": *[12]/"key_type": [/; s/"key_type":[12]/"key_type":[/' out/0/items/_METADATA
show inspect out
fresh "and the manifest"
"$HFSHARD" convert in out --quiet >/dev/null
sed -i '1s/{/{,/' out/0/hfshard.json
show verify out
