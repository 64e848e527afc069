# A tree with the names of a loader, or of transformers' modules, that lacks a tensor: it is named as the tree names the others.
source "$TESTS/cli/lib.bash"
lacking() { # SOURCE FORMAT TENSOR SCHEME...: the tree without the tensor and without records
  rm -rf whole tree
  "$HFSHARD" convert "$1" whole --to "$2" "${@:4}" >/dev/null 2>&1
  "$HFSHARD" reshard whole tree --to "$2" --exclude "$3" >/dev/null 2>&1
  find tree -name hfshard.json -delete
}
said() { # COMMAND...: its error
  rm -rf out
  echo "\$ hfshard ${*:1:1} ${*:4}"
  COLUMNS=1000 "$HFSHARD" "$@" 2>&1 | grep -E '^(hfshard:|  tensor|  hint|warning|note|published)' || true
}
example qwen3 in
for format in dcp orbax; do
  echo "-- torchtitan's in $format"
  lacking in $format layers.1.attention.qkv_linear.wk.weight --scheme torchtitan
  said convert tree out --to safetensors --config in
  said convert tree out --to orbax --scheme maxtext --config in
  said convert tree out --to dcp --scheme hf --config in
  said reshard tree out --config in
  for layers in stacked separate; do
    echo "-- MaxText's $layers in $format"
    lacking in $format params.params.decoder.decoder_norm.scale --scheme maxtext --layers $layers
    said convert tree out --to safetensors --config in
    said convert tree out --to dcp --scheme torchtitan --config in
  done
done
echo "-- three are missing"
lacking in dcp 'layers.1.attention.*norm.weight' --scheme torchtitan
said convert tree out --to safetensors --config in
said convert tree out --to safetensors --config in --include '*'
ls out
echo "-- modules"
example qwen2_vl vl
lacking vl dcp model.language_model.norm.weight --scheme hf --dialect modules
said convert tree out --to safetensors --config vl
said convert tree out --config vl
echo "-- files"
lacking in dcp model.norm.weight --scheme hf
said convert tree out --to safetensors --config in
echo "-- names of two releases"
cp -r "$TESTS/oracle/deepseek4" v4
rm -rf tree
"$HFSHARD" convert v4 tree --to dcp --scheme hf --quiet
rm tree/hfshard.json
said convert tree out --to safetensors --config v4
"$HFSHARD" diff out v4 --quiet && echo equal
lacking v4 dcp head.weight --scheme hf
said convert tree out --to safetensors --config v4
echo "-- torchtitan's names of an earlier release"
mkdir old
cp in/model.safetensors old
rename old "re.sub(r'^model\.', '', n).replace('self_attn.', 'attention.').replace('post_attention_layernorm', 'ffn_norm')"
for pair in embed_tokens=tok_embeddings input_layernorm=attention_norm lm_head=output .q_proj=.wq .k_proj=.wk .v_proj=.wv .o_proj=.wo \
  mlp.gate_proj=feed_forward.w1 mlp.down_proj=feed_forward.w2 mlp.up_proj=feed_forward.w3; do
  rename old "n.replace('${pair%=*}', '${pair#*=}')"
done
for lost in '' layers.1.attention.wk.weight 'layers.1.attention.w*'; do
  rm -rf tree
  "$HFSHARD" convert old tree --to dcp --scheme hf ${lost:+--exclude "$lost"} --quiet
  rm tree/hfshard.json
  said convert tree out --to safetensors --config in
done
