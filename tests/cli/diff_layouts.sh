# diff of two checkpoints of one model in different layouts, where one of them has computed values, or a part of the model.
source "$TESTS/cli/lib.bash"
example llama hf
ends convert hf titan --to safetensors --scheme torchtitan
ends convert hf maxtext --to safetensors --scheme maxtext
ends convert hf dcp --to dcp --scheme torchtitan
ends convert hf stacked
ends convert hf separate --layers separate
echo "-- a directory with a scheme's names next to its config.json"
show diff hf titan
show diff maxtext hf
show diff titan dcp
echo "-- MaxText's queries are scaled, and torchtitan's aren't"
show diff titan stacked
show diff maxtext dcp
show diff dcp separate
show diff stacked separate
echo "-- without records, the names tell"
rm titan/hfshard.json maxtext/hfshard.json dcp/hfshard.json
show diff hf titan
show diff titan maxtext
show diff dcp maxtext
show diff titan stacked
echo "-- a value that differs, and a missing tensor"
python3 - <<'P'
import json
data = bytearray(open("titan/model.safetensors", "rb").read())
begin = 8 + int.from_bytes(data[:8], "little")
header = json.loads(data[8:begin])
name = next(each for each in header if each.endswith("wq.weight"))
data[begin + header[name]["data_offsets"][0] + 1] ^= 0x40
open("titan/model.safetensors", "wb").write(data)
P
show diff titan stacked
echo "-- a part of the model, and a cast: the record doesn't hide them"
ends convert hf part --layers separate --include 'model.layers.0.*'
show diff hf part | tail -n +3 | head -4
ends convert hf rest --layers separate --exclude 'model.layers.0.*'
show diff hf rest | tail -n +3 | head -4
ends convert hf cast --layers separate --cast '*decoder_norm.scale=f32'
show diff hf cast
ends convert hf wide --layers separate --dtype f32
show diff hf wide | tail -n +3 | head -3
echo "-- names of a text-only model, which its family's rules find by its tensors, in a tree without a record"
ends convert "$TESTS/oracle/qwen3.5-text" text --scheme hf
rm text/0/hfshard.json
ends convert text back --to safetensors --config "$TESTS/oracle/qwen3.5-text"
ends diff back "$TESTS/oracle/qwen3.5-text"
echo "-- its experts in one tensor, as transformers saves them, and one by one"
cp -r "$TESTS/oracle/qwen3.5-text" by_one
ends convert by_one fused --to dcp --dialect modules
rm fused/hfshard.json
show diff fused text --config by_one
show diff text fused --config by_one
ends convert by_one files --to safetensors --dialect modules
rm files/hfshard.json
show diff files text --config by_one
show diff text files
python3 - <<'P'
import json
data = bytearray(open("files/model.safetensors", "rb").read())
begin = 8 + int.from_bytes(data[:8], "little")
header = json.loads(data[8:begin])
name = next(each for each in header if each.endswith("gate_up_proj"))
data[begin + header[name]["data_offsets"][1] - 2] ^= 0x01
open("files/model.safetensors", "wb").write(data)
P
show diff files text
echo "-- parts that --with selected, in trees without a record"
cp -r "$TESTS/oracle/gemma3" gemma
ends convert gemma seen --with vision
ends convert gemma by_layer --with vision --layers separate
ends convert gemma names --scheme hf --to dcp
rm seen/0/hfshard.json by_layer/0/hfshard.json names/hfshard.json
show diff seen gemma
show diff gemma by_layer
show diff names seen --config gemma
ends convert seen exported --to safetensors --config gemma
ends diff exported gemma
cp -r "$TESTS/oracle/deepseek3-mtp" predicts
ends convert predicts ahead --with mtp
rm ahead/0/hfshard.json
ends convert ahead again --to safetensors --config predicts
show diff again predicts
ends convert predicts titan_ahead --to safetensors --scheme torchtitan --with mtp
ends convert predicts maxtext_ahead --to safetensors --scheme maxtext --with mtp
show diff maxtext_ahead titan_ahead
echo "-- a dialect's names from a scheme's, without a record"
example qwen2_vl vl
ends convert vl named --to safetensors --scheme maxtext
rm named/hfshard.json
ends convert named modules --to safetensors --dialect modules
show diff modules vl
