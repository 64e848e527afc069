# --num-layers: the first layers of a model; numbers that there are not, and the commands that take it.
source "$TESTS/cli/lib.bash"
"$HFSHARD" mappings example deepseek in --with mtp --quiet >/dev/null
echo "-- what is left out is named, and the config says so"
show convert in out --num-layers 4
python3 -c 'import json; a, b = (json.load(open(f)) for f in ("in/config.json", "out/hf/config.json"))
print(*(f"{k}: {a[k]} -> {b.get(k)}" for k in a if a[k] != b.get(k)), *(b.keys() - a.keys()))'
cmp in/generation_config.json out/hf/generation_config.json
show verify out in
echo "-- fewer layers than the dense ones"
show plan in --num-layers 2 --layers separate | grep -v '^  ' | grep 'note\|family\|source'
"$HFSHARD" plan in --num-layers 2 --layers separate --json --quiet | python3 -c 'import json, sys
plan = json.load(sys.stdin); print(plan["identity"]["options"]["num_layers"], *plan["load_words"])'
echo "-- all of them: nothing is left out, and the config is the source's"
"$HFSHARD" convert in whole --num-layers 5 2>/dev/null | sed -n "/^next/,/[^\\\\]\$/p"
cmp in/config.json whole/hf/config.json && cat whole/0/hfshard.json | grep -c '"num_layers":5'

echo "-- the words for MaxText, of models that it knows by a name"
known() {
  "$HFSHARD" mappings example "$1" known --config "$2" --sparse --quiet >/dev/null
  "$HFSHARD" plan known --to null --json --quiet --num-layers "$3" | python3 -c 'import json, sys; print(*json.load(sys.stdin)["load_words"])'
  rm -r known
}
known qwen3 "$TESTS/../bench/e2e/qwen3-0.6b.json" 2
python3 -c 'import json, sys; json.dump(json.load(open(sys.argv[1]))["config"], open("gemma2.json", "w"))' "$TESTS/oracle/trees/gemma2-9b.json"
known gemma2 gemma2.json 4

echo "-- numbers that there are not"
for n in 0 -1 six 6; do show plan in --num-layers $n; done
show plan in --num-layers 3
example gpt_oss blocks
show plan blocks --num-layers 3
example gemma2 pairs
show plan pairs --num-layers 7
show plan in --num-layers 2 --scheme hf
show link in --num-layers 2 --in-place --side-file
sed 's/"L": /"Layers": /; s/\bL\b/Layers/g; s/"use": \["decoder", /"use": [/; s/"dims": {/"dims": {"D": "hidden_size", "H": "num_attention_heads", "F": "intermediate_size", "Layers": "num_hidden_layers", /' \
  "$TESTS/../mappings/qwen3.json" | sed 's/\["layers", "norms"/[{"part": "layers", "dims": {"L": "Layers"}}, "norms"/' > own.json
example qwen3 uncounted
show plan uncounted --mapping own.json --num-layers 2

echo "-- workers, and runs that go on, must mean the same layers"
told convert in shared --num-layers 4 --worker 0/2
ends convert in shared --worker 1/2
ends convert in shared --num-layers 3 --layers separate --worker 1/2
ends convert in shared --num-layers 4 --worker 1/2
"$HFSHARD" finalize shared 2>/dev/null | sed -n '/^next/,/[^\\]$/p'
diff -r out shared && echo "one output, however it was made"
told convert in out --num-layers 4 --resume
ends convert in out --num-layers 5 --resume

echo "-- an index over the source's files"
ends link in linked --num-layers 4 --quiet
diff out/hf linked/hf && [ ! linked/hf/config.json -ef in/config.json ] && echo "with the same config, and not the source's"
grep -c '"num_hidden_layers": 5' in/config.json
show verify linked in

echo "-- mappings check, of tensors and of names"
show mappings check in --num-layers 4
mkdir names && cp in/config.json names
python3 -c 'import json
data = open("in/model.safetensors", "rb").read()
names = [name for name in json.loads(data[8:8 + int.from_bytes(data[:8], "little")]) if name != "__metadata__"]
json.dump({"metadata": {}, "weight_map": {name: "model.safetensors" for name in names}}, open("names/model.safetensors.index.json", "w"))'
show mappings check names --num-layers 4
"$HFSHARD" mappings check names --num-layers 2 --layers separate --json | python3 -c 'import json, sys
for drop in json.load(sys.stdin)["dropped"][::40]: print(drop["rule"], drop["why"])'
echo "-- an export has all layers"
example qwen3 every
"$HFSHARD" convert every every-tree -q 2>/dev/null
for words in "--num-layers 1" "--num-layers 99" "--num-layers 1 --config every"; do
  # shellcheck disable=SC2086
  told convert every-tree every-back --to safetensors $words
done
ends convert every-tree every-other --to dcp --scheme torchtitan --num-layers 1
echo "-- an export has the options of its record"
told convert every-tree every-back --to safetensors --option rope=halves
echo "-- layers that don't fill whole cycles have no stacks"
cp -r "$TESTS/oracle/qwen3-next-six" six
show plan six
ends plan six --layers separate
