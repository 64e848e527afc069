# A checkpoint of accelerate: the model is below pytorch_model_fsdp_0, its config.json next to that, and the rest isn't read.
source "$TESTS/cli/lib.bash"
example qwen3 in
mkdir acc
"$HFSHARD" convert in acc/pytorch_model_fsdp_0 --to dcp --scheme hf -q 2>/dev/null
rm acc/pytorch_model_fsdp_0/*.json
cp -r acc/pytorch_model_fsdp_0 acc/optimizer_0
touch acc/scheduler.pt acc/random_states_0.pkl
show inspect acc --summary | head -2
echo "-- without a config"
show convert acc bare --to safetensors | grep -v digest
echo "-- with one"
cp in/config.json in/tokenizer_config.json acc
show convert acc out --to safetensors | grep -v digest
ls out
ends diff in out
