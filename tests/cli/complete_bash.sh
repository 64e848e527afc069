# What bash offers for each line of completions_lines.txt, whose end is marked, by the function that it calls.
source <("$HFSHARD" completions bash)
mkdir -p dir/sub
touch dir/file.json
complete -p hfshard
offer() {
  COMP_LINE=$1 COMP_POINT=${#1} COMP_WORDS=() COMP_CWORD=0
  _hfshard hfshard
  echo "$1 => $(printf '%s\n' "${COMPREPLY[@]}" | LC_ALL=C sort | tr '\n' ' ')"
}
while IFS= read -r line; do offer "${line%|}"; done <"$TESTS/cli/completions_lines.txt"
echo "-- bash replaces what stands behind the last = only, unless it is told otherwise"
offer "hfshard convert --mesh=fsdp=2,ten"
COMP_WORDBREAKS=${COMP_WORDBREAKS//=/}
offer "hfshard convert --mesh=fsdp=2,ten"
