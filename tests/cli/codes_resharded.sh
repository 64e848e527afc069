# `reshard --dtype` decodes codes as the config.json beside them says, which a checkpoint of hfshard's has, or --config.
source "$TESTS/cli/lib.bash"
cat >config.json <<'C'
{"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 3,
 "num_key_value_heads": 1, "head_dim": 16, "intermediate_size": 48, "vocab_size": 22, "attention_bias": false,
 "tie_word_embeddings": false, "torch_dtype": "bfloat16"}
C
words='{"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {"group_0": {"targets": ["Linear"],
 "weights": {"num_bits": 8, "type": "int", "strategy": "channel", "symmetric": true}}}}'
blocks='{"quant_method": "fp8", "weight_block_size": [8, 8]}'
for kind in int8_words blocks; do
  rm -rf in direct
  "$HFSHARD" mappings example qwen3 in --config config.json --quiet >/dev/null 2>&1
  method=$words
  if [ $kind = blocks ]; then method=$blocks; fi
  python3 "$TESTS/cli/make_quantized.py" in $kind "$method"
  "$HFSHARD" convert in direct --to safetensors --scheme hf --dtype f32 -q >/dev/null 2>&1
  for from in dcp orbax; do
    rm -rf tree
    "$HFSHARD" convert in tree --to $from --scheme hf -q >/dev/null 2>&1
    for to in safetensors dcp orbax; do
      for config in "" "--config in"; do
        echo "-- $kind: $from to $to $config"
        rm -rf out
        # shellcheck disable=SC2086
        ends reshard tree out --to $to --dtype f32 $config
        ends diff direct out
        ends verify out tree
      done
    done
  done
  rm -rf out
  "$HFSHARD" reshard tree out --to safetensors --dtype f32 -q >/dev/null 2>&1
  echo "quantization_config stays: $(grep -c quantization_config out/config.json || true)"
done
echo "-- words with padding, which only weight_shape tells"
for kind in padded shapeless; do
  rm -rf in tree out
  "$HFSHARD" mappings example qwen3 in --config config.json --quiet >/dev/null 2>&1
  python3 "$TESTS/cli/make_quantized.py" in $kind "$words"
  show convert in out --to safetensors --scheme hf --dtype f32
  for to in dcp orbax; do
    rm -rf tree
    "$HFSHARD" convert in tree --to $to --scheme hf -q >/dev/null 2>&1
    show reshard tree out --dtype f32
  done
done
echo "-- diff of a tree of codes and a tree of the decoded model"
rm -rf in tree model
"$HFSHARD" mappings example qwen3 in --config config.json --quiet >/dev/null 2>&1
python3 "$TESTS/cli/make_quantized.py" in blocks "$blocks"
"$HFSHARD" convert in tree --scheme hf -q 2>/dev/null
"$HFSHARD" convert in model -q 2>/dev/null
show diff tree model
ends diff model tree
echo "-- a directory with a scheme's names, whose codes were decoded, and its way back by names"
quantized() { grep -q quantization_config "$1/config.json" && echo "$1: quantization_config" || echo "$1: not quantized"; }
cp -r "$TESTS/oracle/gpt-oss-mxfp4" coded
"$HFSHARD" plan coded 2>/dev/null | grep "decodes to" # with scales that two leaves share
for scheme in torchtitan maxtext; do
  rm -rf named back
  ends convert coded named --to safetensors --scheme $scheme
  quantized named
  rm named/hfshard.json
  cp coded/config.json named
  ends convert named back --to safetensors
  quantized back
  ends diff back coded
  "$HFSHARD" inspect back | grep -oE 'layers\.0\.mlp\.experts\.\w+'
done
ends convert coded same --to safetensors --scheme hf
quantized same
ends convert coded kept --dialect modules --to dcp
quantized kept
echo "-- diff of codes and a tree whose queries are scaled"
rm -rf coded
cp -r "$TESTS/oracle/llama-fp8" coded
ends convert coded codes --to dcp
ends convert coded scaled --layers separate
show diff scaled codes
rm codes/hfshard.json scaled/0/hfshard.json
ends diff codes scaled --config coded
echo "-- a cast decodes codes that kept the model's own names"
ends convert coded own --to dcp --scheme hf
ends convert own cast --to safetensors --cast '*=f32'
