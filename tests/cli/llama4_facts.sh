# What config.json of Llama 4 says about rotary positions and query scales becomes an argument for MaxText, or a warning.
source "$TESTS/cli/lib.bash"
example llama4 hf
said() { # KEY VALUE: what MaxText is told of it, and warnings
  echo "-- $1 $2"
  python3 - "$@" <<'P'
import json, sys
config = json.load(open("hf/config.json"))
config["text_config"][sys.argv[1]] = json.loads(sys.argv[2])
json.dump(config, open("hf/config.json", "w"))
P
  "$HFSHARD" plan hf --json --quiet >plan.json
  python3 - <<'P'
import json
plan = json.load(open("plan.json"))
print(*[word for word in plan["load_words"] if word.split("=")[0] in ("scan_layers", "nope_layer_interval", "temperature_tuning")])
for warning in plan["warnings"]:
    print(warning)
P
  rm -r hf
  example llama4 hf
}
said no_rope_layers null
said no_rope_layers '[]'
said no_rope_layers '[1, 1, 1, 0, 1, 1, 1, 0]'
said no_rope_layers '[1, 0, 1, 0, 1, 0, 1, 0]'
said no_rope_layers '[1, 1, 1, 1, 1, 1, 1, 1]'
said no_rope_layers '[0, 0, 0, 0, 0, 0, 0, 0]'
said no_rope_layers '[1, 0, 1, 1, 1, 0, 1, 1]'
said no_rope_layer_interval 2
said attn_temperature_tuning true
said attn_temperature_tuning 4
said attn_temperature_tuning false
said attn_scale 0.1
said attn_scale 0.5
said floor_scale 8192
said floor_scale 4
