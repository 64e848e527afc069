# --dry-run of a command that writes is plan: the same words, the same status, and nothing is written.
source "$TESTS/cli/lib.bash"
mkdir work && cd work
example qwen3 in
example gpt_oss quantized

# What a command says on both streams, and how it ends, but for the room on the disk.
said() {
  { "$HFSHARD" "$@" 2>&1 && echo "exit 0" || echo "exit $?"; } | sed -E 's/[0-9.]+ .iB free/ROOM free/; s/("[a-z_]*free_bytes":)[0-9]+/\1ROOM/'
}

# same PLAN... | COMMAND...
same() {
  local plan=()
  while [ "$1" != "|" ]; do plan+=("$1"); shift; done
  shift
  tree . >../before
  said plan "${plan[@]}" >../plan
  said "$@" --dry-run >../dry
  tree . >../after
  cmp ../plan ../dry && cmp ../before ../after && echo "$(tail -n 1 ../dry): $*"
}
same in out "|" convert in out
same in "|" convert in
same in out --json "|" convert in out --json
same in out --mesh fsdp=2 --dtype f32 --output-step 3 --layers separate "|" \
  convert in out --mesh fsdp=2 --dtype f32 --output-step 3 --layers separate
same in --to null "|" convert in --to null
same in out --max-memory 1MiB "|" convert in out --max-memory 1MiB
same in out --with vision "|" convert in out --with vision
same in out --link "|" link in out
same in --link "|" link in
same in out --link --json "|" link in out --json
same quantized out --link "|" link quantized out
echo "-- in place the source is the output"
tree . >../before
said link in --in-place --side-file --dry-run --quiet | grep -E "^(plan|exit)" | sed 's/[0-9a-f]\{64\}/ID/'
tree . >../after
cmp ../before ../after
"$HFSHARD" link in --in-place --side-file 2>/dev/null >../linked && said link in --in-place --side-file --dry-run --quiet
echo "-- with an output there"
"$HFSHARD" convert quantized out 2>/dev/null >../converted
same quantized out "|" convert quantized out
same quantized out --resume "|" convert quantized out --resume
same quantized out --overwrite "|" convert quantized out --overwrite
show plan in --dry-run
