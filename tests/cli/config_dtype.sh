# Each part of config.json states the dtype that was written of that part.
source "$TESTS/cli/lib.bash"
cp -r "$TESTS/oracle/qwen3-vl" in
python3 - <<'EOF'
import json
config = json.load(open("in/config.json"))
for part in (config, config["text_config"], config["vision_config"]):
    part.pop("torch_dtype", None)
    part["dtype"] = "bfloat16"
json.dump(config, open("in/config.json", "w"))
EOF
said() {
  python3 - "$1" <<'EOF'
import json, sys
config = json.load(open(sys.argv[1] + "/config.json"))
print(config["dtype"], {part: config[part]["dtype"] for part in ("text_config", "vision_config")})
EOF
}
run() {
  echo "\$ hfshard convert in out $*"
  "$HFSHARD" convert in out "$@" 2>&1 >published | grep config || true
  said "${HF:-out}"
  rm -r out
}
run --to safetensors
run --to safetensors --dtype f32
run --to safetensors --cast '*language_model*=f32'
run --to safetensors --cast '*visual*=f32'
run --to dcp --scheme hf --dtype f32
HF=out/hf run --to orbax --scheme hf --dtype f32
