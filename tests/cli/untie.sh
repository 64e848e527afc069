# An output head that training has moved away from a tied embedding, trained padding and trained constants: nothing is
# dropped unless it was compared, or --drop accepts the loss.
source "$TESTS/cli/lib.bash"
says() { # DIRECTORY: what its config.json says of the head, and whether there is one
  grep -o '"tie_word_embeddings": [a-z]*' "$1/config.json"
  "$HFSHARD" inspect "$1" | grep -Eo '^ *(lm_head|model.embed_tokens)[.a-z]*' | tr -d ' '
}
example qwen3 untied
"$HFSHARD" mappings example qwen3 tied --config untied/config.json --quiet >/dev/null
sed -i 's/"tie_word_embeddings": false/"tie_word_embeddings": true/' tied/config.json
for scheme in maxtext torchtitan; do
  to=orbax
  [ $scheme = maxtext ] || to=dcp
  echo "-- $scheme"
  "$HFSHARD" convert untied $scheme --to $to --scheme $scheme --quiet >/dev/null
  told convert $scheme $scheme-hf --to safetensors --config tied
  told convert $scheme $scheme-hf --to safetensors --config tied --drop 'nothing*'
  told convert $scheme $scheme-hf --to safetensors --config tied --untie
  says $scheme-hf
  ends verify $scheme-hf $scheme
  "$HFSHARD" diff untied $scheme-hf 2>/dev/null | tail -1
  echo
  show convert $scheme $scheme-lost --to safetensors --config tied --drop '*l[mo][_g]*'
  says $scheme-lost
done
echo "-- from one scheme to the other"
told convert torchtitan across --scheme maxtext --config tied
told convert torchtitan across --scheme maxtext --config tied --untie
says across/hf
"$HFSHARD" diff maxtext across 2>/dev/null | tail -1
echo
echo "-- a model's files"
told convert tied tree
told convert tied tree --untie
says tree/hf
"$HFSHARD" diff maxtext tree 2>/dev/null | tail -1
echo
told verify tree tied
told link tied --in-place --untie
echo "-- workers"
for share in 0/2 1/2; do ends convert torchtitan shared --to safetensors --config tied --worker $share; done
told finalize shared
echo "-- rows beyond the vocabulary"
sed 's/"vocab_size": 22/"vocab_size": 24/' untied/config.json >wide.json
"$HFSHARD" mappings example qwen3 wide --config wide.json --quiet >/dev/null
"$HFSHARD" convert wide wide-tree --quiet >/dev/null
told convert wide-tree narrow --to safetensors --config untied --vocab 24
told convert wide-tree narrow --to safetensors --config untied --vocab 24 --drop '*embedding' --drop '*logits_dense.kernel'
"$HFSHARD" convert untied padded --vocab 24 --quiet >/dev/null
told convert padded narrow-back --to safetensors
"$HFSHARD" diff untied narrow-back 2>/dev/null | tail -1
echo
echo "-- a constant"
example deepseek_v4 mhc
"$HFSHARD" convert mhc mhc-tree --checksum none --quiet >/dev/null
told convert mhc-tree mhc-back --to safetensors
python3 - <<'P'
import glob
# The first row of ones is the scale of a norm that the model's files do not have.
for path in glob.glob("mhc-tree/0/items/**/d/*", recursive=True):
    data = open(path, "rb").read()
    at = data.find(b"\x00\x00\x80\x3f" * 8)
    if at < 0:
        continue
    with open(path, "r+b") as file:
        file.seek(at + 4)
        file.write(b"\x00\x00\xc0\x3f")
    print("trained")
    break
P
told convert mhc-tree mhc-lost --to safetensors
show convert mhc-tree mhc-lost --to safetensors --drop '*mhc_norm.scale' 2>&1 | grep -E 'mhc_norm|^exit'
echo "-- a tied model that stores no head"
example qwen3 headless
sed -i 's/"tie_word_embeddings": false/"tie_word_embeddings": true/' headless/config.json
python3 "$TESTS/cli/rename_tensors.py" headless/model.safetensors "None if 'lm_head' in n else n"
for words in "--to safetensors" "--to dcp --dialect modules --scheme hf" "--scheme torchtitan" "" "--num-layers 1"; do
  show convert headless out --untie $words 2>&1 | grep -E 'error|hint|^exit'
done
told convert headless out
echo "-- tied models of all families, without a head in their files"
for family in $("$HFSHARD" mappings list --json | grep -o '"name": *"[a-z0-9_]*"' | cut -d'"' -f4 | sort -u); do
  rm -rf bare config.json
  "$HFSHARD" mappings example "$family" bare -q >/dev/null 2>&1
  sed 's/"tie_word_embeddings": false/"tie_word_embeddings": true/' bare/config.json >config.json
  rm -rf bare
  "$HFSHARD" mappings example "$family" bare --config config.json -q >/dev/null 2>&1 || continue
  grep -q '"tie_word_embeddings": true' config.json || continue
  grep -q lm_head bare/*.safetensors && continue
  echo "$family"
  ends convert bare none --to safetensors --untie
  rm -rf none
done
echo "-- an output made with --drop can be exported, converted and compared"
rm -rf tied drop away back onward
example qwen3 plain
cp -r plain tied
sed -i 's/"tie_word_embeddings": false/"tie_word_embeddings": true/' tied/config.json
"$HFSHARD" convert tied away --to dcp --scheme hf -q 2>/dev/null
ends convert away drop --config tied --drop lm_head.weight
ends convert away kept --to safetensors --drop lm_head.weight
ends convert drop back --to safetensors
ends convert drop onward --to dcp --scheme torchtitan
"$HFSHARD" reshard drop drop-again --mesh fsdp=2 -q
ends convert drop-again back-again --to safetensors
ends diff drop back
echo "-- without a config.json to change"
mkdir no-config
cp plain/model.safetensors no-config
told convert no-config never --scheme hf --untie
ls -d never 2>/dev/null || true
