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
