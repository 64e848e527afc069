# Sizes that config.json doesn't give: errors name its keys, both numbers, and --vocab; letters of the mappings stay inside.
source "$TESTS/cli/lib.bash"
example qwen3 good
set_config() { # DIRECTORY PYTHON: changes `c`, its config
  python3 - "$1" "$2" <<'P'
import json, sys
path = sys.argv[1] + "/config.json"
c = json.load(open(path))
exec(sys.argv[2])
json.dump(c, open(path, "w"))
P
}
fresh() { # PYTHON
  echo "-- $1"
  rm -rf in out
  cp -r good in
  set_config in "$1"
}
for change in "c['vocab_size'] = 20" "c['vocab_size'] = 30" "del c['vocab_size']" "c['hidden_size'] = 30" "c['head_dim'] = 9" \
    "c['num_attention_heads'] = 3" "c['intermediate_size'] = 1 << 62" "c['hidden_size'] = 26.5" "c['num_hidden_layers'] = -1" \
    "c['num_hidden_layers'] = 10**9" \
    "c['num_hidden_layers'] = '3'" "c['num_hidden_layers'] = [3]" "c['tie_word_embeddings'] = 'no'"; do
  fresh "$change"
  show convert in out
done
echo "-- an optional part that is neither there nor away"
example deepseek parts
show convert parts out --option mtp=yes
echo "-- a family with an inexact division"
example gemma2 gemma
set_config gemma "c.pop('head_dim', None); c['num_attention_heads'] = 7"
show convert gemma out
echo "-- from a checkpoint"
"$HFSHARD" convert good tree --quiet >/dev/null
"$HFSHARD" convert good padded --vocab 30 --quiet >/dev/null
"$HFSHARD" convert good titan --to dcp --scheme torchtitan --quiet >/dev/null
find tree padded titan -name 'hfshard*.json' -delete
cp -r good other
set_config other "c['vocab_size'] = 30"
show convert padded never --to safetensors --config good
ends convert padded back --to safetensors --config good --vocab 30
"$HFSHARD" diff good back --quiet >/dev/null && echo "the same model"
show convert padded never --to safetensors --config good --vocab 25
show convert tree never --to safetensors --config other
show convert titan never --to safetensors --config other
show reshard tree never --config other
show reshard padded never --config good
echo "-- one other key of config.json is wrong"
for change in "c['num_hidden_layers'] += 1" "c['num_hidden_layers'] -= 1" "c['num_key_value_heads'] *= 2" "c['num_key_value_heads'] = 1" \
    "c['intermediate_size'] *= 3"; do
  fresh "$change"
  told convert tree never --to safetensors --config in
  told reshard tree never --config in
done
fresh "c['num_attention_heads'] = 8; c['intermediate_size'] = 28"
told convert tree never --to safetensors --config in
told reshard tree never --config in
fresh "c['num_key_value_heads'] = 1"
told convert in never
"$HFSHARD" convert good dcp --to dcp --quiet
rm dcp/hfshard.json
told convert dcp never --to safetensors --config in
"$HFSHARD" convert good whole -q 2>/dev/null
show convert whole never --to safetensors --vocab 20
"$HFSHARD" convert good recorded --to dcp --scheme torchtitan --quiet >/dev/null
show convert recorded never --to safetensors --vocab 20
