# The next command, pasted: a shell gives back the words that were meant, wherever the output lies.
source "$TESTS/cli/lib.bash"
place="it's a \"new\" \$HOME; ls *"
mkdir "$place"
cd "$place"

# Prints the words of the line, one in each line.
pasted() {
  line=$(sed -n 's/^next      //p')
  bash -c "set -- $line"'; printf "<%s>\n" "$@"'
}

parts=
words() {
  echo "-- $*"
  family=$1 && shift
  rm -rf in out
  "$HFSHARD" mappings example "$family" in --quiet $parts >/dev/null
  "$HFSHARD" convert in out --quiet $parts "$@" | pasted
}
words qwen3
words qwen3_vl
parts="--with vision" words qwen3_vl --layers separate
words qwen3_omni
words llama4
words phi3
words qwen3 --scheme hf
echo "-- link"
rm -rf out
"$HFSHARD" link in out --quiet --scheme hf | pasted
echo "-- workers, and JSON"
rm -rf out
for share in 0/2 1/2; do "$HFSHARD" convert in out --quiet --worker $share >/dev/null; done
"$HFSHARD" finalize out --quiet | pasted
rm -rf out
"$HFSHARD" convert in out --quiet --json | python3 -c 'import json, sys; print(*json.load(sys.stdin)["next"], sep="\n")'
"$HFSHARD" plan in --quiet --json | python3 -c 'import json, sys; print(*json.load(sys.stdin)["load_words"], sep="\n")'
