# One named file: a whole model takes along what its directory would, and a shard doesn't.
source "$TESTS/cli/lib.bash"
said() { # COMMAND...: its warnings, notes and errors
  rm -rf out
  COLUMNS=1000 "$HFSHARD" "$@" 2>&1 | grep -E '^(warning|note|hfshard:|  hint)' || true
}
example qwen3 in
ends convert in all --to safetensors
said convert in/model.safetensors out --to safetensors
ls out
for file in model.safetensors config.json tokenizer_config.json generation_config.json; do cmp all/$file out/$file; done
ends verify out in/model.safetensors
ends diff out in
said convert in/model.safetensors out
ls out/hf
said convert in/model.safetensors out --to dcp --scheme hf
ls out | grep json
echo "-- another name"
cp -r in named
mv named/model.safetensors named/epoch-3.safetensors
said convert named/epoch-3.safetensors out --to safetensors
ls out
echo "-- a model that no family knows"
cp -r in falcon
sed -i 's/"qwen3"/"falcon"/; s/Qwen3ForCausalLM/FalconForCausalLM/' falcon/config.json
said convert falcon/model.safetensors out --to safetensors
ls out
echo "-- without a config"
rm named/config.json
said convert named/epoch-3.safetensors out --to safetensors
ls out
echo "-- a tensor is missing"
cp -r in part
python3 "$TESTS/cli/rename_tensors.py" part/model.safetensors "None if n == 'model.norm.weight' else n"
said convert part/model.safetensors out --to safetensors
said convert part/model.safetensors out --to safetensors --config in
said convert part/model.safetensors out --to safetensors --include '*'
ls out
echo "-- shards"
cp -r in shards
python3 "$TESTS/cli/shards.py" shards/model.safetensors 2
said convert shards/model-00001-of-00002.safetensors out --to safetensors
ls out
said convert shards/model-00001-of-00002.safetensors out --to safetensors --config in
ls out
cp -r in other
sed -i 's/{/{"another": 1,/' other/config.json
said convert shards/model-00001-of-00002.safetensors out --to safetensors --config other
ls out
said convert shards/model-00001-of-00002.safetensors out
mv shards/config.json shards/model.safetensors.index.json .
said convert shards/model-00001-of-00002.safetensors out --to safetensors
mv config.json model.safetensors.index.json shards
echo "-- other names, and other contents than the names say"
cp in/model.safetensors model.bin
said convert model.bin out
printf 'PK\003\004%s' "$(head -c 200 /dev/zero | tr '\0' x)" >zip.safetensors
said convert zip.safetensors out
mkdir lone
printf 'PK\003\004' >lone/last.ckpt
said convert lone out
echo "-- a shard that an index lists, by another name, of an unknown family"
mv shards/model-00001-of-00002.safetensors shards/a.safetensors
sed -i 's/model-00001-of-00002/a/' shards/model.safetensors.index.json
cp falcon/config.json shards
said convert shards/a.safetensors out --to safetensors
ls out
echo "-- one file of a DCP checkpoint, which can be a whole archive"
"$HFSHARD" convert in torch --to dcp --quiet 2>&1
for name in torch/__00000_0.distcp torch/.metadata; do
  said convert $name out
  said inspect $name
done
cp zip.safetensors __0_0.distcp
said convert __0_0.distcp out
echo "-- no tensors"
cp -r in void
printf '\10\0\0\0\0\0\0\0{}      ' >void/model.safetensors
said convert void out --scheme hf
