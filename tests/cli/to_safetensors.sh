# A HuggingFace directory made of another one, in files of another size and another dtype.
source "$TESTS/cli/lib.bash"
example qwen3 in
show plan in --to safetensors --shard-bytes 8kB --quiet | tail -n 14
show convert in out --to safetensors --shard-bytes 8kB --quiet
tree out
show verify out in --quiet
show verify out --quiet
show inspect out --data --quiet | tail -2
show convert in out --to safetensors --shard-bytes 8kB --quiet --resume
cmp in/config.json out/config.json && echo "the same config.json"
echo "-- one file"
show convert out single --to safetensors --quiet
tree single
echo "-- workers"
for share in 2/3 0/3 1/3; do
  ends convert in shared --to safetensors --shard-bytes 8kB --worker $share
done
show finalize shared --quiet
diff -r out shared && echo "the same directory"
show finalize shared --quiet
echo "-- what stands there"
show convert in out --to safetensors --quiet
echo mine > out/README.md
show convert in out --to safetensors --overwrite --quiet
rm out/README.md
show convert in out --to safetensors --dtype f32 --overwrite --quiet
tree out
show verify out in --quiet
cp -r in theirs
show convert in theirs --to safetensors --overwrite --quiet
diff -r in theirs && echo "theirs is as it was"
show convert in in/below --to safetensors --quiet
echo "-- a changed byte"
printf X | dd of=out/model.safetensors bs=1 seek=20000 conv=notrunc status=none
show verify out --quiet
show verify out in --quiet
