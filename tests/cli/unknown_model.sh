# A tree with the config of a model that no family knows is converted as files of such a model are, and what was checked is said.
source "$TESTS/cli/lib.bash"
said() { # COMMAND...: its notes and errors
  rm -rf out
  COLUMNS=1000 "$HFSHARD" "$@" 2>&1 | grep -vE '^(published|family|digest|next|  )'
}
example phi3 in
config() { # DIR TYPE CLASS [ROTARY]
  mkdir "$1"
  python3 - "$@" <<'P'
import json, sys
folder, kind, name, *rotary = sys.argv[1:]
config = json.load(open("in/config.json")) | {"model_type": kind, "architectures": [name]}
json.dump(config | ({"partial_rotary_factor": float(rotary[0])} if rotary else {}), open(f"{folder}/config.json", "w"))
P
}
config falcon falcon FalconForCausalLM
config partly phi3 Phi3ForCausalLM 0.75
for format in dcp orbax; do
  echo "-- $format"
  ends convert in tree --to $format --scheme hf
  find tree -name hfshard.json -delete
  said convert tree out --to safetensors --config falcon
  ends diff in out
  cmp falcon/config.json out/config.json
  said convert tree out --to safetensors --scheme hf --config falcon
  ends diff in out
  said reshard tree out --to safetensors --config falcon
  ends diff in out
  said convert tree out --to safetensors --config partly
  ends diff in out
  rm -r tree
done
echo "-- a model whose own names are all below a key"
example llama4 wrapped
ends convert wrapped tree --to dcp --scheme hf
rm tree/hfshard.json
said convert tree out --to safetensors --config wrapped
sed -i 's/"llama4"/"newest"/; s/Llama4ForConditionalGeneration/NewestForConditionalGeneration/' wrapped/config.json
said convert tree out --to safetensors --config wrapped
rm -r tree
echo "-- below a key"
cp -r in keyed
rm keyed/config.json
python3 "$TESTS/cli/rename_tensors.py" keyed/model.safetensors "'model.' + n"
ends convert keyed tree --to orbax --scheme hf
find tree -name hfshard.json -delete
said convert tree out --to safetensors --config falcon
said convert tree out --to safetensors --config falcon --root model
ends diff in out
rm -r tree
echo "-- wrapped"
ends convert in wide --to safetensors --dtype f32
python3 "$TESTS/cli/rename_tensors.py" wide/model.safetensors "'_orig_mod.' + n"
python3 "$TESTS/support/tiny_dcp.py" tree --model wide/model.safetensors
said convert tree out --to safetensors --config falcon --root model
ends diff in out --dtype-aware
echo "-- no rules lead to MaxText"
said convert tree out --config falcon
said convert tree out --to orbax --config falcon --scheme maxtext
ends convert in maxtext
find maxtext -name hfshard.json -delete
said convert maxtext out --to safetensors --config falcon
