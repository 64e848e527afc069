# Outputs that loaders don't take are said to be so, or refused with the option that accepts them.
source "$TESTS/cli/lib.bash"
example qwen3 hf
shown() { show "$@" | grep -vE '^(digest|family|tokenizer)'; }
# Arrays by these names, as a checkpoint of PyTorch and as one of Orbax.
made() {
  python3 - "$@" <<'PYTHON'
import json, struct, sys
header, data = {}, b""
for name in sys.argv[2:]:
    header[name] = {"dtype": "F32", "shape": [2, 2], "data_offsets": [len(data), len(data) + 16]}
    data += bytes(16)
text = json.dumps(header).encode()
with open(sys.argv[1] + ".safetensors", "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text + data)
PYTHON
  "$HFSHARD" convert "$1.safetensors" "$1" --to dcp --quiet >/dev/null 2>&1
  rm "$1.safetensors" "$1/hfshard.json"
}
echo "-- optimizer states among a model's tensors"
made nested model.model.norm.weight model.lm_head.weight optimizer.state.model.norm.weight.exp_avg
made flat model.norm.weight lm_head.weight optimizer.state.model.norm.weight.exp_avg
cp hf/config.json . && mkdir meta && mv config.json meta
sed -i 's/"model_type": *"[^"]*"/"model_type": "unknown"/; s/Qwen3For/NobodyFor/' meta/config.json
shown convert nested out --to safetensors --config meta
shown convert flat out --to safetensors --config meta
shown convert nested out1 --to safetensors --config meta --root model
shown convert flat out2 --to safetensors --config meta --exclude 'optimizer.*'
shown convert flat out3 --to safetensors --config meta --include '*'
shown convert nested out4 --to safetensors
shown reshard nested out5
made headed model.transformer.wte.weight model.lm_head.weight optimizer.state.wte.exp_avg
shown convert headed out5 --to safetensors --config meta
echo "-- the same with a training state, of a model that stores its tied head too"
python3 - "$TESTS/oracle/qwen2.5/model.safetensors" <<'PYTHON'
import json, struct, sys
data = open(sys.argv[1], "rb").read()
size = 8 + int.from_bytes(data[:8], "little")
header, end = json.loads(data[8:size]), len(data) - size
for name in ("optimizer.state.model.norm.weight.exp_avg", "optimizer.state.lm_head.weight.exp_avg", "train_state.step", "train_state.ntokens_seen"):
    header[name] = {"dtype": "F32", "shape": [], "data_offsets": [end, end + 4]}
    end += 4
text = json.dumps(header).encode()
open("tied.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + data[size:] + bytes(16))
PYTHON
"$HFSHARD" convert tied.safetensors tied --to dcp --quiet >/dev/null 2>&1
rm tied.safetensors tied/hfshard.json
cp -r "$TESTS/oracle/qwen2.5" qwen
shown convert tied out --to safetensors --config qwen
shown convert tied out22 --to safetensors --config qwen --exclude 'optimizer.*'
shown convert tied out23 --to safetensors --config qwen --exclude 'optimizer.*' --exclude 'train_state.*'
echo "-- no config.json"
mkdir bare && cp hf/model.safetensors bare
shown convert bare out6 --to safetensors
shown convert bare out7 --to dcp
shown convert bare out7a --to safetensors --exclude 'lm_head*'
"$HFSHARD" convert bare out8 --to safetensors --json --quiet | grep -o '"warnings":\[[^]]*\]'
echo "-- a part of a model"
shown convert hf out9 --exclude 'lm_head*'
shown convert hf out10 --to dcp --scheme torchtitan --include '*.layers.1.*'
shown convert hf out11 --to safetensors --include '*.layers.1.*'
ends convert hf full
shown reshard full out12 --include '*.mlp.*'
shown convert full out13 --to safetensors --exclude 'lm_head*'
shown convert full out14 --layers separate --exclude 'lm_head*'
shown reshard full out15 --exclude step
"$HFSHARD" plan hf --exclude 'lm_head*' --json --quiet | grep -o '"warnings":\[[^]]*\]'
echo "-- mostly padding"
shown convert hf out16 --chunk-bytes 1 --vocab 1000
shown plan hf --chunk-bytes 1 --vocab 1000
shown convert hf out17 --to dcp --chunk-bytes 1
"$HFSHARD" convert hf out18 --chunk-bytes 1 --dry-run 2>&1 | grep -A2 warning
"$HFSHARD" reshard full out18 --chunk-bytes 1 2>&1 | grep -A2 warning
ends convert hf out19 --chunk-bytes 1KiB
ls -d out1[6-9]
echo "-- a scheme's names next to a config.json"
shown convert hf out20 --to safetensors --scheme torchtitan
shown convert hf out21 --to safetensors --scheme maxtext
echo "-- a release, as --maxtext or as an option"
example deepseek_v4 released
plan_id() { "$HFSHARD" plan released --json "$@" | grep -o '"plan_id":"[0-9a-f]*"'; }
[ "$(plan_id --maxtext 0.2.4)" = "$(plan_id --option maxtext=0.2.4)" ] && echo "they are the same plan"
[ "$(plan_id --maxtext 0.2.4)" != "$(plan_id)" ] && echo "the newest release is another one"
show plan released --maxtext 0.2.4 --option maxtext=0.2.4
