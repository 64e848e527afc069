# Tensors without a config.json: --config DIR says which model they are of, and its files go along.
source "$TESTS/cli/lib.bash"
example qwen3 model
mkdir bare dir
cp model/*.safetensors bare
cp model/config.json model/tokenizer_config.json dir
echo "-- without it"
show convert bare out
echo "-- the directory, or the file in it"
ends convert bare out --config dir
ends convert bare file --config dir/config.json
ends convert model whole
for made in out file; do
  diff -r "$made/0/items/d" whole/0/items/d && diff <(tree "$made/hf") <(printf '%s\n' "$made/hf/config.json" "$made/hf/tokenizer_config.json") && echo same
done
ends verify out bare
ends verify out
told diff model out
echo "-- its own tokenizer is not dropped silently"
echo '{}' | tee bare/tokenizer.json >bare/tokenizer_config.json
show plan bare --config dir 2>&1 | grep 'not copied'
echo "-- to files"
ends convert bare files --config dir --to safetensors --scheme hf
ls files
