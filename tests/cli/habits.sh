# Words of other programs, and checkpoints of other programs: each is answered with the command that was meant.
source "$TESTS/cli/lib.bash"
example qwen3 in
# Prints a command, and what its hint says of it.
hint() {
  echo "\$ hfshard $*"
  "$HFSHARD" "$@" 2>&1 | sed -n 's/^hfshard: error \(\[[a-z_]*\]\).*/\1/p; s/^  hint  *//p'
}
echo "-- options"
hint convert in out --to maxtext
hint convert in out --to torchtitan
hint convert in out --to=JAX
hint convert in --to hf out
hint convert in out --scan-layers false
hint convert in out --scan_layers=False
hint convert in out --scan-layers --num-layers 2
hint convert in out scan_layers=false
hint convert in out --tp 2
hint convert in out --fsdp 16
hint convert in out --fsdp=16 --tp 2 --quiet
hint convert in out --mesh fsdp=4 --tensor_parallel_size 2
hint convert in out --ici_fsdp_parallelism=16
hint convert in out --mesh tp=2
hint convert in out --mesh 16
hint convert in out --mesh fsdp:4,tp:2
hint convert in out --mesh fsdp16
hint convert in out --mesh fsdp 16 --quiet
hint convert in out --mesh fsdp=4 tp=2 --quiet
hint plan in --load_mesh tp=2
hint convert in out --force
hint convert in out -f
hint clean out -f
hint convert in out --bf16
hint convert in out --torch_dtype bfloat16
hint convert in out --continue
hint convert in out --num-workers 4 --max_shard_size 2GB --to safetensors
hint convert in out --max_memory 1GiB
hint convert --model in --output-dir out
hint convert -i in -o "the output"
hint convert in out --format torchtitan
hint convert in out --verbose
hint convert in out --token hf_abc
hint convert in out --device cuda
hint fetch Qwen/Qwen3-8B --local-dir here
hint verify out in --tp 2
hint convert in out --to gguf
hint convert in out --to=megatron
hint convert in out --dtype fp8
hint convert in out --model_name qwen3-8b
hint convert in --base_output_directory out
hint -v
echo "-- commands"
hint list
hint ls in
hint list in
hint download Qwen/Qwen3-8B
hint validate out in
hint validate
hint compare in out
hint export out new --to safetensors
hint resume in out
hint in out
hint ./in
hint in --summary
hint ./in -q
hint rm out
hint mapping list
"$HFSHARD" convert in out >/dev/null 2>&1
show verify in out
rm -r out
hint frobnicate in
echo "-- models of the Hub"
hint convert Qwen3-8B out
hint plan llama-3.1-8B --tp 2
hint fetch gpt-oss-20b
hint convert Qwen/Qwen3-0.6B/ out
hint convert no-such-model out
hint convert 'Qwen\Qwen3' out
echo "-- places that are not read yet"
hint convert gs://bucket/ckpt out
hint inspect s3://bucket/ckpt
hint plan az://container/ckpt
hint plan file:///tmp/model
echo "-- checkpoints of other programs"
mkdir -p deepspeed/global_step500 megatron/iter_0000100/mp_rank_00 easydel/model gguf onnx tf
touch deepspeed/latest deepspeed/global_step500/{bf16_zero_pp_rank_0_mp_rank_00_optim_states,mp_rank_00_model_states}.pt
echo 100 >megatron/latest_checkpointed_iteration.txt
touch megatron/iter_0000100/mp_rank_00/model_optim_rng.pt
echo '{}' >easydel/tensorstore_index.json
cp in/config.json easydel
printf 'GGUF\3\0\0\0' >gguf/model.gguf
echo onnx >onnx/model.onnx
touch tf/model.ckpt-1000.index tf/model.ckpt-1000.data-00000-of-00001
for place in deepspeed deepspeed/global_step500 megatron megatron/iter_0000100 easydel gguf gguf/model.gguf onnx/model.onnx tf; do
  hint convert "$place" out
done
"$HFSHARD" convert in dcp --to dcp --quiet >/dev/null
rm dcp/config.json dcp/hfshard.json
touch dcp/common.pt dcp/metadata.json
"$HFSHARD" convert dcp model --to safetensors 2>&1 >/dev/null | grep Megatron
echo "-- a checkpoint that lies below"
mkdir -p below/run/models below/empty two/a/b two/c
cp -r in below/run/models/qwen3
"$HFSHARD" convert in two/a/b/orbax --quiet >/dev/null
"$HFSHARD" convert in two/c/dcp --to dcp --quiet >/dev/null
for place in below below/run two two/a; do hint convert "$place" out; done
hint inspect below
hint convert below/empty out
echo "-- a model of no family"
cp -r in other
sed -i 's/"qwen3"/"frobnicator"/; s/Qwen3ForCausalLM/NoSuchModel/' other/config.json
hint convert other out
echo "-- hints that fail are not printed"
hint convert in out --scan_layers=flase
hint convert in out --scan_layers=maybe
hint convert in out --mesh "fsdp=2 tensor=2"
hint convert in out --mesh "fsdp=2; tensor : 2"
hint convert in out --mesh '{"fsdp": 2}'
hint convert in out --mesh fsdp=2.0
hint convert in out --mesh fsdp=99999999999999999999
hint convert in out -m fsdp=2
hint convert in out --model x
hint verify two/a/b/orbax -m in
hint verify -m in
hint convert --hf_model_path in --base_output_directory out
hint in convert out
hint hfshard convert in out
hint convert in/config.json/ out
hint convert hf:Qwen/Qwen3-8B out
hint convert Qwen/Qwen3-8B:main out
hint convert a:b/c:d out
hint convert in out --cast "*=bfloat16"
hint convert in out --cast bf16
hint mappings check --all in
hint mappings example deepseek_v3 made
hint mappings show Qwen3ForCausalLM
hint mappings example llama made --config in/config.json
hint convert in out --max-memory 1
echo "-- what stays as it is"
hint convert in out --mehs fsdp=2
hint convert in out --resume --overwrite
hint convert in out -- --tp 2
