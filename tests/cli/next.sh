# The next command, pasted: a shell gives back the words that were meant, wherever the output lies.
source "$TESTS/cli/lib.bash"
place="it's a \"new\" \$HOME; ls *"
mkdir "$place"
cd "$place"

# Prints the words, one in each line; they may stand in several lines, each with a backslash at its end but the last.
pasted() {
  lines=$(sed -n '/^next  /,/[^\\]$/{s/^next  *//;p}')
  bash -c "set -- $lines
"'printf "<%s>\n" "$@"'
}

parts=
words() {
  echo "-- $*"
  family=$1 && shift
  rm -rf in out
  "$HFSHARD" mappings example "$family" in --quiet $parts >/dev/null
  "$HFSHARD" convert in out $parts "$@" 2>/dev/null | pasted
}
words qwen3
words qwen3_vl
parts="--with vision" words qwen3_vl --layers separate
words qwen3_omni
words llama4
words phi3
words qwen3 --scheme hf
echo "-- the rotary base of config.json, where it is not MaxText's"
words qwen2_vl
theta() {
  family=$1 && shift
  rm -rf in out
  "$HFSHARD" mappings example "$family" in --quiet >/dev/null
  python3 -c 'import json, sys; c = json.load(open("in/config.json")); c.update(json.loads(sys.argv[1])); json.dump(c, open("in/config.json", "w"))' "$1"
  echo "-- $family $1"
  "$HFSHARD" plan in --quiet --json | grep -o '"load_words":[^]]*]'
}
theta qwen3 '{"rope_theta": 1000000}'
theta qwen3 '{"rope_theta": 5000000.0}'
theta llama '{"rope_theta": 10000.0}'
theta llama '{"rope_parameters": {"rope_theta": 1000000, "rope_type": "default"}}'
theta phi3 '{"rope_theta": 250000}'
theta qwen2_vl '{"rope_theta": 2000000}'
theta qwen3_moe '{"rope_theta": 10000000}'
theta mixtral '{"rope_theta": 1000000.0}'
theta llama '{"tie_word_embeddings": true}'
echo "-- on 40, 52, 80 and 500 columns"
rm -rf in out
"$HFSHARD" mappings example phi3 in --quiet >/dev/null
for columns in 40 52 80 500; do
  rm -rf out
  COLUMNS=$columns "$HFSHARD" convert in out 2>/dev/null >said
  pasted <said | sed 1d | cksum
  sed -n '/^next/,/^tokenizer/p' said | sed 1d | awk -v most=$columns 'length > most && NF > 2 { print "too long: " $0 } END { print (NR > 2) }'
done
echo "-- link"
rm -rf out
"$HFSHARD" link in out --scheme hf 2>/dev/null | pasted
echo "-- workers, and JSON"
rm -rf out
for share in 0/2 1/2; do "$HFSHARD" convert in out --quiet --worker $share >/dev/null; done
"$HFSHARD" finalize out 2>/dev/null | pasted
rm -rf out
"$HFSHARD" convert in out --quiet --json | python3 -c 'import json, sys; print(*json.load(sys.stdin)["next"], sep="\n")'
"$HFSHARD" plan in --quiet --json | python3 -c 'import json, sys; print(*json.load(sys.stdin)["load_words"], sep="\n")'
