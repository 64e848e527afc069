# Quantized sources that do not hold together: which tensor, what is wrong; status 3; nothing is written.
source "$TESTS/cli/lib.bash"
good="$TESTS/oracle/deepseek3-fp8"
fresh() {
  echo
  echo "-- $1"
  rm -rf in
  cp -r "$good" in
}
# Renames a tensor in the header; both names have the same length.
rename() {
  LC_ALL=C sed -i "s/\"$1\"/\"$2\"/" in/model.safetensors
}

fresh "as it should be"
ends convert in --to null
fresh "a tensor without its scales"
rename model.layers.1.self_attn.o_proj.weight_scale_inv model.layers.1.self_attn.o_proj.weight_scale_out
show convert in out
fresh "scales without their tensor"
rename model.layers.1.self_attn.o_proj.weight model.layers.1.self_attn.o_proj.wait__
show convert in out
fresh "another block size than the scales have"
sed -i 's/^ *128/5/' in/config.json
show convert in out
fresh "a quant_method that nothing decodes"
sed -i 's/"quant_method": "fp8"/"quant_method": "awq"/' in/config.json
show convert in out
fresh "codes cannot be kept"
show convert in out --dtype keep
fresh "a key is missing"
sed -i 's/"kv_lora_rank"/"kv_lora_rink"/' in/config.json
show convert in out
fresh "tensors of another generation"
sed -i 's/"deepseek_v3"/"qwen3"/; s/DeepseekV3ForCausalLM/Qwen3ForCausalLM/' in/config.json
show convert in out
echo
echo "-- zero points are missing"
rm -rf in
example qwen3 in
python3 "$TESTS/cli/make_quantized.py" in int8 '{"quant_method": "compressed-tensors", "format": "int-quantized", "config_groups":
 {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "int", "symmetric": false, "strategy": "channel"}}}}'
show convert in out
show convert in out --to safetensors --scheme hf --dtype bf16
ls -A
