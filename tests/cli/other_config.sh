# --config DIR of a source that has a config.json: the one that was named counts, and this is said.
source "$TESTS/cli/lib.bash"
example qwen3 in
cp -r in wrong
sed -i 's/"vocab_size": 22/"vocab_size": 25/' wrong/config.json
show convert wrong out
show convert wrong out --config in
show verify out wrong
show convert wrong out --config in --resume
show convert wrong files --to safetensors --config in
cmp in/config.json files/config.json && echo "the config that was named"
example llama other
show convert in never --config other
show convert in same --config in
echo '{' >other/config.json
show convert in never --config other
echo "-- a size in text_config"
example gemma3 gemma
"$HFSHARD" convert gemma gemma-tree --quiet
find gemma-tree -name 'hfshard*.json' -delete
mkdir gemma-wrong
sed 's/"intermediate_size": 34/"intermediate_size": 37/' gemma/config.json >gemma-wrong/config.json
told convert gemma-tree never --to safetensors --config gemma-wrong
