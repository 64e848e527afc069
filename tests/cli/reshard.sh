# A checkpoint for another mesh, and back to the model; what is refused.
"$HFSHARD" mappings example qwen3 hf --quiet >/dev/null
"$HFSHARD" convert hf out --mesh fsdp=2 --output-step 7 --quiet >/dev/null
"$HFSHARD" reshard out again --mesh tensor=2 2>&1 | grep -v digest
"$HFSHARD" verify again
"$HFSHARD" verify again out
ls again again/7 again/hf
"$HFSHARD" convert again back --to safetensors 2>&1 | grep -v digest
cmp hf/config.json back/config.json
"$HFSHARD" verify back
echo "--- what is refused"
refused() { "$HFSHARD" "$@" --quiet 2>&1 && echo "not refused: $*" || true; }
refused reshard hf other
refused reshard out other --step 8
refused reshard out other --axes 'nothing*=embed'
refused reshard out other --axes '*.wi_0.kernel=embed'
refused reshard out other --axes kernel
refused convert out other
mv out/7/hfshard.json .
refused convert out other --to safetensors
"$HFSHARD" plan out other --to safetensors --config hf | grep -E '^(family|source|output) '
"$HFSHARD" convert out other --to safetensors --config hf 2>/dev/null | grep published
cmp back/model.safetensors other/model.safetensors
echo "--- some of the model's tensors"
"$HFSHARD" convert out part --to safetensors --config hf --include '*.layers.1.*' --exclude '*norm*' 2>/dev/null | grep published
"$HFSHARD" inspect part | grep -o 'model.layers[^ "]*'
"$HFSHARD" verify part out 2>/dev/null
refused convert out never --to safetensors --config hf --exclude '*nothing*'
echo "--- axes from a config"
mkdir meta && (mv out/7/items meta/items)
shards() { "$HFSHARD" reshard meta/items never --mesh fsdp=2 "$@" --dry-run --json --quiet | grep -o '"shard":\[[0-9,]*\]' | sort | uniq -c; }
shards
shards --config hf
sed 's/"num_hidden_layers": *[0-9]*/"num_hidden_layers": 9/' hf/config.json >meta/config.json
refused reshard meta/items never --config meta
mv meta/items out/7/items
echo "--- workers, with the config elsewhere; and the model's own files before an index over them"
for worker in 0/2 1/2; do "$HFSHARD" convert out shared --to safetensors --config hf --worker $worker 2>/dev/null; done
(mkdir elsewhere && cd elsewhere && "$HFSHARD" finalize ../shared 2>/dev/null | grep published)
diff -r other shared && echo "as one run has it"
"$HFSHARD" link hf --in-place 2>/dev/null | grep -c published
"$HFSHARD" convert hf own --to safetensors 2>/dev/null | grep family
echo "--- of PyTorch: the same format, unless another one is asked for"
"$HFSHARD" convert hf torch --to dcp --mesh fsdp=2 --quiet >/dev/null
"$HFSHARD" reshard torch torch3 --mesh fsdp=3 2>&1 | grep -v digest
"$HFSHARD" verify torch3 torch
"$HFSHARD" inspect torch3 --summary | grep written
"$HFSHARD" reshard torch orbax --to orbax 2>/dev/null | grep published
mkdir runs && mv torch runs/step-5 && mv torch3 runs/step-6
"$HFSHARD" reshard runs step5 --step 5 --to dcp 2>/dev/null | grep published
"$HFSHARD" reshard runs step5 --to dcp --resume 2>&1 | grep conflict
"$HFSHARD" diff runs step5 | tail -1
rm step5/__00000_0.distcp
"$HFSHARD" verify step5 | tail -1; echo ${PIPESTATUS[0]}
"$HFSHARD" diff hf step5 | tail -1; echo ${PIPESTATUS[0]}
echo "--- what lies beside the tree"
mkdir -p out/7/iter/part && echo '{"position":5}' >out/7/iter/part/0 && cp -r out/7/items out/7/average
refused reshard out plain --items all --to dcp
refused reshard back plain --items all
refused convert hf plain --items average
"$HFSHARD" reshard out kept --items all 2>/dev/null
diff -r out/7/iter kept/7/iter && diff -r out/7/average kept/7/average && echo "copied"
"$HFSHARD" reshard out alone --quiet 2>&1 | grep -c note: || true
ls alone/7
"$HFSHARD" reshard out average --items average 2>&1 | grep published
rm hfshard.json && "$HFSHARD" verify kept out 2>&1
mkfifo out/7/iter/pipe
refused reshard out pipe --items all
echo "--- in how many files the source is"
"$HFSHARD" reshard "$TESTS/golden/orbax/merged" files --dry-run 2>/dev/null | grep '^source'
echo "--- a mesh without axes"
"$HFSHARD" convert hf plain --scheme hf --output-step 1 --quiet >/dev/null 2>&1
said_of_mesh() { # ARGUMENT...: what a reshard says of the mesh, and how it ends
  "$HFSHARD" reshard plain meshed --output-step "$RANDOM" --chunk-bytes 64 "$@" 2>&1 | tr '\n' ' ' | sed 's/  */ /g' |
    grep -o "note: --mesh[^:]*:[^:]*\(DIR for a model\|--axes\)" || echo "nothing"
}
said_of_mesh
said_of_mesh --mesh fsdp=2
said_of_mesh --mesh fsdp=2 --config hf
said_of_mesh --mesh fsdp=2 --exclude 'model.*'
said_of_mesh --mesh fsdp=2 --axes '*=embed'
