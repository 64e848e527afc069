# Sources that cannot be converted: which file, which tensor, which bytes; status 3; nothing is written.
source "$TESTS/cli/lib.bash"
good="$TESTS/oracle/qwen3"
fresh() {
  echo
  echo "-- $1"
  rm -rf in
  cp -r "$good" in
}

fresh "there is no such directory"
rm -r in
show convert in out
fresh "an empty directory"
rm in/*
show convert in out
fresh "config.json is missing"
rm in/config.json
show convert in out
fresh "config.json is not JSON"
echo '{"model_type": ' > in/config.json
show convert in out
fresh "an unknown family with near names"
sed -i 's/"model_type": "qwen3"/"model_type": "qwen33"/; s/Qwen3ForCausalLM/NoSuchModel/' in/config.json
show convert in out
fresh "an unknown family"
sed -i 's/"model_type": "qwen3"/"model_type": "frobnicator"/; s/Qwen3ForCausalLM/NoSuchModel/' in/config.json
show convert in out
fresh "a truncated shard"
truncate -s -100 in/model-00002-of-00002.safetensors
show convert in out
fresh "a header longer than the file"
printf '\377\377\377\377\000\000\000\000{}' > in/model-00001-of-00002.safetensors
show convert in out
fresh "a git-lfs pointer"
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%064d\nsize 12345\n' 0 \
  > in/model-00001-of-00002.safetensors
show convert in out
fresh "a shard is missing"
rm in/model-00002-of-00002.safetensors
show convert in out
fresh "a download that is not complete"
mv in/model-00002-of-00002.safetensors in/model-00002-of-00002.safetensors.incomplete
show convert in out
fresh "the index names a tensor that no file has"
sed -i 's/model.norm.weight/model.norm.wait/' in/model.safetensors.index.json
show convert in out
fresh "only .bin files, one of which is missing"
rm in/*.safetensors in/*.index.json
echo data > in/pytorch_model-00001-of-00002.bin
show convert in out
mv in/pytorch_model-00001-of-00002.bin in/pytorch_model.bin
show convert in out
fresh "only a .pth file"
rm in/*.safetensors in/*.index.json
echo data > in/consolidated.00.pth
show convert in out
fresh "only a GGUF file"
rm in/*.safetensors in/*.index.json
echo data > in/model.gguf
show convert in out
fresh "an adapter"
rm in/*
echo '{"peft_type": "LORA"}' > in/adapter_config.json
cp "$good/model-00001-of-00002.safetensors" in/adapter_model.safetensors
show convert in out
echo
tree . | grep -v '^\./in' || echo "nothing was written"
echo "-- a config.json without a byte"
example qwen3 empty
: >empty/config.json
show convert empty out
echo "-- sizes in config.json that are none"
example qwen3 sizes
for size in '"26"' 26.5 true -26; do
  sed "s/\"hidden_size\": *[0-9]*/\"hidden_size\": $size/" "$good/config.json" >sizes/config.json
  show plan sizes
done
