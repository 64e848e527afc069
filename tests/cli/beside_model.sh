# Files next to a model's weights are copied, or a note names them: adapters, other weights, folders, metadata.
source "$TESTS/cli/lib.bash"
example qwen3 in
mkdir in/additional_chat_templates in/2_Dense in/assets
echo '{{ messages }}' >in/additional_chat_templates/tool.jinja
echo x >in/README.md
echo x >in/LICENSE.txt
echo x >in/picture.png
echo '{}' >in/modules.json
echo '{}' >in/adapter_config.json
echo 'import helper' >in/helper.py
cp in/model.safetensors in/2_Dense/
echo x >in/adapter_model.bin
ln -s nowhere in/vocab.json
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:aa\nsize 12345\n' >in/tokenizer.model
python3 - <<'EOF'
import json
data = open("in/model.safetensors", "rb").read()
size = int.from_bytes(data[:8], "little")
head = json.loads(data[8:8 + size])
head["__metadata__"] = {"format": "pt", "step": "300", "recipe": "a"}
text = json.dumps(head, separators=(",", ":")).encode()
text += b" " * (-len(text) % 8)
open("in/model.safetensors", "wb").write(len(text).to_bytes(8, "little") + text + data[8 + size:])
EOF
show convert in files --to safetensors | grep -v "in [0-9.]* s)"
tree files
ends verify files in
show convert in out | grep -E "note|read|exit"
tree out/hf
ends verify out in
echo "-- further steps of one root"
ends convert in out --output-step 1
ends convert in out --output-step 1 --overwrite
cp -r in changed
echo '{}' >changed/tokenizer_config.json
told convert changed out --output-step 2
ls -d .out* 2>/dev/null || echo "nothing is staged"
told convert changed out --output-step 1 --overwrite
ends verify out --step 0
echo '{}' >in/vocab.json
ends convert in out --output-step 1 --overwrite
ends verify out --step 0
ends convert in out --output-step 2
echo y >>out/hf/additional_chat_templates/tool.jinja
show verify out in
echo "-- a config that isn't the recorded one"
cp out/hf/config.json kept.json
sed -i 's/"vocab_size": [0-9]*/"vocab_size": 12/' out/hf/config.json
told convert out export --to safetensors
told reshard out again --mesh fsdp=2
ends convert out export --to safetensors --config in
ends reshard out again --mesh fsdp=2 --config in
ends verify again
mv kept.json out/hf/config.json
rm -r again
ends convert in dcp --to dcp --scheme torchtitan
sed -i 's/"vocab_size"/"rope_theta": 54321, "vocab_size"/' dcp/config.json
told convert dcp export.dcp --to safetensors
told convert dcp again --scheme maxtext
ends convert dcp again --scheme maxtext --config in
rm -r again
echo "-- a cast of what is never cast"
show reshard out again --cast step=bf16
echo "-- parts of one checkpoint"
python3 "$TESTS/support/tiny_dcp.py" torch
ends reshard torch part --root layers
show diff part torch --quiet | tail -1
