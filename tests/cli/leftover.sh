# A quantization_config that is left over from before the weights were merged or cast: the tensors decide.
source "$TESTS/cli/lib.bash"
left_over() { # FAMILY METHOD
  rm -rf in out
  example "$1" in
  python3 - "$2" <<'P'
import json, sys
config = json.load(open("in/config.json"))
config["quantization_config"] = {"quant_method": sys.argv[1], "bits": 4, "weight_block_size": [128, 128]}
json.dump(config, open("in/config.json", "w"))
P
}
converts() {
  left_over $1 $2
  echo "-- $1, $2"
  "$HFSHARD" convert in out --quiet 2>&1 | grep -E 'error|hint' || true
  "$HFSHARD" diff in out --quiet >/dev/null && echo "the same values"
  grep -c quantization_config out/0/hf/config.json || true
}
for family in llama qwen2 mixtral gemma2 deepseek; do converts $family bitsandbytes; done
for method in gptq fp8 compressed-tensors; do converts qwen3 $method; done
rm -r out
"$HFSHARD" convert in out 2>&1 | grep quantization
"$HFSHARD" mappings check in --quiet | tail -1
echo "-- written under the files' own names"
for words in "--to safetensors" "--to dcp --scheme hf" "--to safetensors --dtype bf16"; do
  rm -r out
  "$HFSHARD" convert in out $words 2>&1 | grep quantization
  grep -c quantization_config out/config.json || true
done
left_over llama gptq
echo "-- one tensor of codes is enough"
python3 "$TESTS/cli/rename_tensors.py" in/model.safetensors "n.replace('0.mlp.up_proj.weight', '0.mlp.up_proj.qweight')"
show convert in never
