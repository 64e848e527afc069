# What is printed for people: within 80 columns, with the figures of --json.
python3 "$TESTS/cli/plan_text.py" "$HFSHARD" "$TESTS"
echo "-- a model that the loader knows by name"
cat >config.json <<'J'
{"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 1024, "num_hidden_layers": 28, "num_attention_heads": 16,
 "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 3072, "vocab_size": 151936, "rope_theta": 1000000, "tie_word_embeddings": true}
J
"$HFSHARD" mappings example qwen3 known --config config.json --sparse --quiet >made
for options in "" "--scheme torchtitan --to dcp" "--exclude model.norm*" "--to safetensors"; do
  echo "$options: $("$HFSHARD" plan known --json --quiet $options | grep -o '"model_names":[^]]*]')"
done
