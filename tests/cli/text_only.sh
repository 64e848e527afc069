# A tree without a record that is exported with the config of a text-only model, or of a part of the model.
source "$TESTS/cli/lib.bash"
for family in qwen3_5 qwen3_vl qwen3_omni gemma3 gemma4 llama4 muse_glimmer; do
  echo "-- $family"
  rm -rf in tree out text
  example $family in
  python3 - <<'P'
import json
import os

whole = json.load(open("in/config.json"))
part = whole.get("thinker_config") or whole["text_config"]
part["tie_word_embeddings"] = whole.get("tie_word_embeddings", False)
os.makedirs("text")
json.dump(part, open("text/config.json", "w"))
P
  scheme=maxtext
  words=()
  if [ $family = muse_glimmer ]; then
    scheme=torchtitan
    words=(--drop 'vision_*')
  fi
  ends convert in tree --to dcp --scheme $scheme
  rm tree/hfshard.json
  ends convert tree out --to safetensors --config text "${words[@]}"
  "$HFSHARD" inspect out | grep -o '^ *[a-z_.]*embed[a-z_.]*weight\|^ *[a-z_.]*lm_head.weight'
done
