# Whatever numbers config.json, the mesh and the options have: an answer within seconds.
source "$TESTS/cli/lib.bash"
example qwen3 in

# A command that must end by itself; of a plan only the totals.
soon() {
  echo "\$ hfshard $*"
  timeout 10 "$HFSHARD" "$@" >out.txt 2>&1 && status=0 || status=$?
  grep -E '^(hfshard: error|  tensor|  hint|  range|output|load)' out.txt || true
  echo "exit $status"
}

for vocab in 400000000000000000 18446744073709551615 9223372036854775807 40000000000000 1000000000039; do
  soon plan in --vocab "$vocab"
done
soon plan in --chunk-bytes 1
soon plan in --vocab 1000000000039 --chunk-bytes 1
soon plan in --mesh fsdp=4294967296,expert=4294967296
soon plan in --mesh fsdp=18446744073709551557
soon plan in --load-mesh data=1000000000000
soon plan in --load-mesh data=4294967296,expert=4294967296
soon plan in --load-mesh data=512 --devices-per-host 512
"$HFSHARD" plan in --link --layers separate --mesh fsdp=2 --devices-per-host 2 --json --quiet | grep -o '"hosts":[0-9]*'
echo "-- config.json"
for size in 400000000000000000 18446744073709551557 1000000000000000003; do
  mkdir "c$size"
  "$HFSHARD" mappings show qwen3 --json >/dev/null
  sed "s/\"vocab_size\": *[0-9]*/\"vocab_size\": $size/" in/config.json >"c$size/config.json"
  grep -c "$size" "c$size/config.json"
  soon mappings example qwen3 "new$size" --config "c$size/config.json" --sparse
  ln in/*.safetensors "c$size"
  soon plan "c$size"
done
