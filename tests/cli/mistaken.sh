# What somebody new types wrong: each is told in a sentence, with what to do next.
source "$TESTS/cli/lib.bash"
"$HFSHARD" mappings example qwen3 model --quiet >/dev/null
mkdir -p empty cache/Qwen3-0.6B tokenizer diffusers/unet shard
cp model/* cache/Qwen3-0.6B
echo '{}' >tokenizer/tokenizer.json
cp model/model.safetensors diffusers/unet
cp model/config.json shard
mkdir shard/model.safetensors
echo "-- commands and their order"
show --convert model out
show model out
show xy out
show version
show mappings
show --quiet convert model out
show --progress never convert model out
show convert model
show convert model .
show convert out model
show --nosuch=a/b model out
echo "-- meshes"
for mesh in 2x4 fsdp fsdp:2 '' fsdp=2, tp=2 'fsdp = 2' fsdp=2,fsdp=2; do show plan model --mesh "$mesh"; done
echo "-- directories that are no model's"
for source in . empty cache tokenizer diffusers shard; do show plan "$source"; done
echo "-- config.json of something else"
cp -r model other
echo '{"model_type": "bert"}' >other/config.json
show plan other
echo '[]' >other/config.json
show plan other
echo "-- verify"
show verify nowhere
show verify model out
echo "-- checkpoints"
"$HFSHARD" convert model out --quiet >/dev/null
"$HFSHARD" reshard out again --quiet >/dev/null 2>&1
show reshard out/0 other-step --step 9
show reshard out other-step --step
show reshard out other-files --include "model*.safetensors"
"$HFSHARD" convert model torch --to dcp --quiet >/dev/null
show reshard torch never --checksum none
show reshard torch never --compress zstd
show reshard again never --checksum none --to safetensors
show verify again model
show fetch model
show fetch Qwen/Qwen3-8B config.json
show fetch Qwen/Qwen3-8B '*.safetensors'
show link model
show link model linked --to dcp
show diff model model --resume
show link model linked --in-place
show plan model --config model/model.safetensors
show plan model --mapping torch
HFSHARD_MAPPINGS=$T/nowhere show mappings list
show convert model new --jobs 60000 --max-memory 512MiB
show convert model new --jobs 1000000
show convert model new --jobs all
echo "-- words of other programs"
for word in "--out new" "-o new" "--output-dir new" "--to pytorch new" "--to hf new" "--scheme huggingface new"; do show convert model $word; done
echo "-- a file of a directory, a step of a root, one step of one"
show convert model/config.json new
show inspect out/0/items/manifest.ocdbt
show inspect model/absent.json
show convert model out/0 --overwrite
show convert model out/0/items
show inspect out --step 3
show inspect out --items state
echo "-- values without an effect, or out of range"
show inspect out --axes x
show diff out model --tolerance -1
show reshard out new --axes '*.wi_0.kernel=embed'
