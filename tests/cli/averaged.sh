# A tree with more than its model: averaged weights beside the trained ones, as trainers save them.
source "$TESTS/cli/lib.bash"
example qwen3 model
"$HFSHARD" convert model run --quiet >/dev/null
"$HFSHARD" reshard run flat --to safetensors --quiet >/dev/null 2>&1
python3 - <<'P'
import json
with open("flat/model.safetensors", "rb") as file:
    size = int.from_bytes(file.read(8), "little")
    header, data = json.loads(file.read(size)), file.read()
header.pop("__metadata__", None)
for name, info in list(header.items()):
    if name.startswith("params."):
        begin, end = info["data_offsets"]
        header["ema_params" + name[6:]] = {**info, "data_offsets": [len(data), len(data) + end - begin]}
        data += data[begin:end]
text = json.dumps(header).encode()
with open("flat/model.safetensors", "wb") as file:
    file.write(len(text).to_bytes(8, "little") + text + data)
P
"$HFSHARD" convert flat both --scheme hf --include "*params*" --quiet >/dev/null 2>&1
told reshard run params-alone --root params
for words in "" "--exclude ema_params.*" "--drop ema_params.*" "--root ema_params"; do
  rm -rf hf
  told convert both hf --to safetensors --scheme hf --config model $words
  "$HFSHARD" diff model hf 2>/dev/null | tail -1
  echo
done
