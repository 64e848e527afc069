# config.json is part of a model: another one is a difference for verify, and is named by diff. As python's json writes it.
source "$TESTS/cli/lib.bash"
export COLUMNS=200  # grep takes whole notes
cp -r "$TESTS/oracle/qwen3" in
cp -r in other
python3 - <<'EOF'
import json
for place, changes in (("in", {"time_step_limit": [0.0, float("inf")]}), ("other", {"rope_theta": 5.0, "time_step_limit": [0.0, float("-inf")]})):
    with open(place + "/config.json") as file:
        config = json.load(file) | changes
    with open(place + "/config.json", "w") as file:
        json.dump(config, file, indent=1)
EOF
ends convert in tree
ends convert in torch --to dcp --scheme torchtitan
ends convert in files --to safetensors
ends convert other tree2
python3 -c 'import json; print(json.load(open("files/config.json"))["time_step_limit"])'
for out in tree torch files; do
  show verify $out in
  show verify $out other
done
for pair in "in other" "tree other" "tree tree2" "tree in"; do
  "$HFSHARD" diff $pair 2>&1 | grep -E "config|equal"
done
"$HFSHARD" inspect in --json | grep -o '"time_step_limit[^]]*]' || true
