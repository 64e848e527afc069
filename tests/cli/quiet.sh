# -q: what does something prints nothing but errors; what compares, only differences; what is asked, its answer.
source "$TESTS/cli/lib.bash"
example qwen3 in
silent() {
  echo "\$ hfshard $* -q"
  local status=0
  "$HFSHARD" "$@" -q || status=$?
  echo "exit $status"
}
silent mappings example llama other
silent convert in out 2>&1
silent convert in out --resume 2>&1
silent convert in --to null 2>&1
silent convert in plain --to safetensors 2>&1
silent reshard out other-mesh --mesh fsdp=2 2>&1
silent reshard out steps --steps all 2>&1
silent link in linked 2>&1
silent convert in shared --worker 0/2 2>&1
silent convert in shared --worker 1/2 2>&1
silent finalize shared 2>&1
silent finalize never 2>&1
silent verify out in 2>&1
silent diff out in 2>&1
silent clean out 2>&1
silent convert in out 2>&1
echo "-- differences"
"$HFSHARD" convert in half --dtype bf16 --overwrite >/dev/null 2>&1
cp -r out damaged
find damaged -type f -path '*/d/*' -size +1k | sort | head -1 | while read -r file; do printf 'X' | dd of="$file" bs=1 seek=100 conv=notrunc status=none; done
silent verify damaged in 2>&1 | sed -n '2p;$p' | sed 's/"[^"]*"/NAME/; s/chunk.*/.../'
silent diff out damaged 2>&1 | sed -n '2p;$p'
echo "-- answers"
silent plan in 2>&1 | grep -c '^family'
silent inspect out --summary 2>&1 | sed -n 2p
silent mappings list 2>&1 | grep -c qwen3_omni
