# A Hugging Face directory made of another one, in files of another size and another dtype.
source "$TESTS/cli/lib.bash"
example qwen3 in
told plan in --to safetensors --shard-bytes 8kB --jobs 2 | tail -n 14
told convert in out --to safetensors --shard-bytes 8kB
tree out
told verify out in
told verify out
told inspect out --data | tail -2
told convert in out --to safetensors --shard-bytes 8kB --resume
cmp in/config.json out/config.json && echo "the same config.json"
echo "-- one file"
told convert out single --to safetensors
tree single
echo "-- a name that another one begins with"
mkdir nested && cp single/model.safetensors nested
python3 "$TESTS/cli/rename_tensors.py" nested/model.safetensors "'lm_head.weight.0' if n == 'model.norm.weight' else n"
told convert nested renamed --to safetensors
told verify renamed nested
echo "-- workers"
for share in 2/3 0/3 1/3; do
  ends convert in shared --to safetensors --shard-bytes 8kB --worker $share
done
told finalize shared
diff -r out shared && echo "the same directory"
told finalize shared
echo "-- what stands there"
told convert in out --to safetensors
echo mine > out/README.md
told convert in out --to safetensors --overwrite
rm out/README.md
told convert in out --to safetensors --dtype f32 --overwrite
tree out
told verify out in
cp -r in theirs
told convert in theirs --to safetensors --overwrite
diff -r in theirs && echo "theirs is as it was"
told convert in in/below --to safetensors
echo "-- a changed byte"
printf X | dd of=out/model.safetensors bs=1 seek=20000 conv=notrunc status=none
told verify out
told verify out in
