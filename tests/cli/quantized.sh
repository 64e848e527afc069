# Codes of every family, recognized by their tensors; what stands beside them is dropped by name; what nothing decodes is refused by name.
source "$TESTS/cli/lib.bash"
quantized() { # KIND [METHOD] [FAMILY]
  rm -rf in out
  "$HFSHARD" mappings example "${3:-qwen3}" in --config "$OLDPWD/config.json" --quiet >/dev/null 2>&1
  python3 "$TESTS/cli/make_quantized.py" in "$1" ${2:-}
}
mkdir work
cat >config.json <<'C'
{"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 3,
 "num_key_value_heads": 1, "head_dim": 16, "intermediate_size": 48, "vocab_size": 22, "attention_bias": false,
 "tie_word_embeddings": false, "torch_dtype": "bfloat16"}
C
cd work
for kind in fp8 modelopt nvfp4 int4 int8; do
  echo "-- $kind"
  quantized $kind
  "$HFSHARD" plan in --to null 2>&1 | grep -E "decodes to|dropped" || true
  ends convert in out --quiet
  ends verify out in --quiet
done
echo "-- dropped by name"
quantized modelopt modelopt
"$HFSHARD" plan in --to null --json | python3 -c '
import json, sys
for item in json.load(sys.stdin)["drops"]:
    print(*item["tensors"][:2], len(item["tensors"]), item["why"], sep="\n  ")'
echo "-- refused by name"
for kind in awq bnb mlx g_idx; do
  quantized $kind
  show convert in out
done
quantized awq awq
show convert in out
quantized int4 q7
show convert in out
told convert in out --scheme hf --to safetensors
