# --dtype and --cast decode codes together with their scales, or refuse: they never change only the scales.
source "$TESTS/cli/lib.bash"
cat >config.json <<'C'
{"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 3,
 "num_key_value_heads": 1, "head_dim": 16, "intermediate_size": 48, "vocab_size": 22, "attention_bias": false,
 "tie_word_embeddings": false, "torch_dtype": "bfloat16"}
C
quantized() { # KIND [METHOD]
  rm -rf in
  "$HFSHARD" mappings example qwen3 in --config config.json --quiet >/dev/null 2>&1
  python3 "$TESTS/cli/make_quantized.py" in "$@"
}
# A conversion: the dtypes of one layer's query projection, or the error.
try() {
  rm -rf out
  local status=0
  "$HFSHARD" convert "$@" out --to safetensors >/dev/null 2>said || status=$?
  echo "${*:2}: exit $status"
  if [ $status -ne 0 ]; then
    grep -A1 '^hfshard: error' said
  else
    python3 - in out <<'P'
import json, struct, sys
def header(folder):
    with open(f"{folder}/model.safetensors", "rb") as file:
        return json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
before, after = map(header, sys.argv[1:])
for name in sorted(after):
    if name.startswith("model.layers.0.self_attn.q_proj") and after[name]["dtype"] != before.get(name, {}).get("dtype"):
        print("  ", name.removeprefix("model.layers.0.self_attn."), after[name]["dtype"])
P
  fi
}
for kind in fp8 modelopt nvfp4 int4 int8 mxfp8 inv other_scale awq gptq hqq bnb bnb8 mlx quanto torchao eetq bitnet words; do
  echo "-- $kind"
  quantized $kind
  for words in "--dtype bf16" "--dtype f32" "--cast *scale*=f16"; do
    set -f
    try in $words
    set +f
  done
done
echo "-- methods that only config.json names"
for method in quanto torchao eetq bitnet unheard_of; do
  quantized words $method
  try in --dtype bf16
done
echo "-- copies keep the codes"
for kind in awq bnb mlx "quanto quanto" "eetq eetq" "bitnet bitnet"; do
  quantized $kind
  try in --scheme hf
done
echo "-- a leftover of config.json"
rm -rf in
"$HFSHARD" mappings example qwen3 in --config config.json --quiet >/dev/null 2>&1
sed -i 's/{/{"quantization_config": {"quant_method": "quanto"}, /' in/config.json
try in --dtype f32
echo "-- from other checkpoints"
for kind in fp8 int4 "quanto quanto" "bnb8 bitsandbytes"; do
  quantized $kind
  for format in dcp orbax; do
    rm -rf tree tree2
    "$HFSHARD" convert in tree --to $format --scheme hf --chunk-bytes 256 -q >/dev/null
    echo "- $kind $format"
    for words in "--dtype f32" "--cast *scale*=f16"; do
      set -f
      try tree $words
      set +f
    done
    case $kind in quanto* | bnb8*) continue ;; esac
    "$HFSHARD" reshard tree tree2 --dtype f32 -q >/dev/null
    "$HFSHARD" convert in direct --to safetensors --scheme hf --dtype f32 --overwrite -q >/dev/null
    ends diff direct tree2
    ends verify tree2
    "$HFSHARD" convert tree maxtext --to orbax --scheme maxtext --overwrite -q >/dev/null
    "$HFSHARD" convert in maxtext2 --overwrite -q >/dev/null
    ends diff maxtext maxtext2
    ends verify maxtext
    "$HFSHARD" convert tree out --to safetensors --dtype f32 --overwrite -q >/dev/null
    ends diff direct out
  done
done
echo "-- files that describe codes come along with them, and only with them"
files() { # CHECKPOINT
  find "$1" -name '*qu*.json' -printf '%f\n' | LC_ALL=C sort
}
for kind in awq fp8; do
  quantized $kind
  for name in hf_quant_config quantize_config quant_config quanto_qmap; do echo '{"bits": 4}' >in/$name.json; done
  rm -rf copy tree back
  "$HFSHARD" convert in copy --to safetensors --scheme hf 2>&1 >/dev/null | grep copied || true
  files copy
  ends convert in tree --to dcp --scheme hf
  files tree
  ends convert tree back --to safetensors
  files back
  ends verify back tree
done
for words in "--to safetensors --dtype bf16" "--to dcp --scheme hf --dtype bf16" "--layers separate"; do
  rm -rf out
  # shellcheck disable=SC2086
  "$HFSHARD" convert in out $words 2>&1 >/dev/null | grep -A1 copied || true
  files out
done
rm -rf out
"$HFSHARD" convert tree out --to safetensors --dtype bf16 2>&1 >/dev/null | grep -A1 copied || true
files out
