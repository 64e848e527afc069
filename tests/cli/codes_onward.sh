# A tree of codes that is converted once more still exports the model's own names, with decoded values.
source "$TESTS/cli/lib.bash"
said() { echo "$1: $(grep -c quantization_config "$1/config.json" || true) quantization_config"; }
for model in gpt-oss-mxfp4 kimi-int4 llama-fp8 deepseek4-released; do
  rm -rf ./*
  cp -r "$TESTS/oracle/$model" coded
  "$HFSHARD" convert coded codes --scheme hf -q 2>/dev/null
  for way in "" "--layers separate" "--to dcp --scheme torchtitan" "--to dcp --scheme hf --dialect modules"; do
    echo "-- $model: codes, then ${way:-convert}"
    rm -rf once onward once-hf onward-hf
    # shellcheck disable=SC2086
    if ! "$HFSHARD" convert coded once $way -q >/dev/null 2>&1; then
      echo "no such tree"
      continue
    fi
    # shellcheck disable=SC2086
    ends convert codes onward $way
    "$HFSHARD" convert once once-hf --to safetensors -q 2>/dev/null
    ends convert onward onward-hf --to safetensors
    ends diff once-hf onward-hf
    said onward-hf
  done
  echo "-- $model: decoded by reshard"
  rm -rf decoded decoded-hf direct
  ends reshard codes decoded --dtype bf16
  ends convert decoded decoded-hf --to safetensors
  said decoded-hf
  "$HFSHARD" convert coded direct --to safetensors --scheme hf --dtype bf16 -q 2>/dev/null
  ends diff direct decoded-hf
done
echo "-- a tree that was cut is no model, also if it's cast"
rm -rf ./*
cp -r "$TESTS/oracle/llama-fp8" coded
"$HFSHARD" convert coded codes --scheme hf -q 2>/dev/null
"$HFSHARD" reshard codes cut --exclude '*layers.1.*' -q 2>/dev/null
show convert cut out --to safetensors
rm -rf cut
"$HFSHARD" convert coded prefixed --scheme hf --prefix outer. -q 2>/dev/null
"$HFSHARD" reshard prefixed cut --exclude '*layers.1.*' -q 2>/dev/null
"$HFSHARD" reshard prefixed whole --dtype bf16 -q 2>/dev/null
ends convert whole out --to safetensors
"$HFSHARD" convert coded direct --to safetensors --scheme hf --dtype bf16 -q 2>/dev/null
ends diff direct out
rm -r out
show convert cut out --to safetensors --dtype bf16
rm -r cut
"$HFSHARD" reshard codes cut --exclude '*layers.1.self_attn.*' -q 2>/dev/null
ends convert cut out --to safetensors --dtype bf16 --exclude '*layers.1.*'
ends diff direct out --exclude '*layers.1.*'
rm -r out
ends convert cut out --to safetensors --exclude '*layers.1.*'
ends diff coded out --exclude '*layers.1.*'
rm -r out
show convert cut out --to safetensors --exclude '*layers.1.mlp.*'
"$HFSHARD" convert coded stacked -q 2>/dev/null
"$HFSHARD" reshard stacked part --exclude 'params.params.decoder.layers.mlp.*' -q 2>/dev/null
ends convert part out --to safetensors --exclude '*.mlp.*'
"$HFSHARD" convert stacked all --to safetensors -q 2>/dev/null
ends diff all out --exclude '*.mlp.*'
echo "-- an export names the tensors that no rule took"
rm -rf ./*
for model in kimi-int4 deepseek3-fp8; do
  cp -r "$TESTS/oracle/$model" $model
  "$HFSHARD" convert $model $model-tree -q 2>/dev/null
  "$HFSHARD" convert $model-tree $model-hf --to safetensors 2>&1 | grep 'not in this'
done
echo "-- and a part of config.json that a tree without a record lacks"
cp -r "$TESTS/oracle/qwen3-vl" seeing
for with in "" "--with vision --layers separate"; do
  rm -rf tree items out
  # shellcheck disable=SC2086
  "$HFSHARD" convert seeing tree $with -q 2>/dev/null
  mv tree/0/items items
  "$HFSHARD" convert items out --to safetensors --config seeing 2>&1 | grep config.json || echo "nothing to say"
done
