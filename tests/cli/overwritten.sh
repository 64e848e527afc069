# `--overwrite` of a step refuses to remove what the new step doesn't replace.
source "$TESTS/cli/lib.bash"
example qwen3 in
"$HFSHARD" convert in out -q 2>/dev/null
ends convert in out --overwrite
mkdir -p out/0/iter
echo state >out/0/iter/process_0.json
show convert in out --overwrite
cat out/0/iter/process_0.json
mv out/0/iter .
echo mine >out/0/mine.txt
told convert in out --overwrite
cat out/0/mine.txt
rm out/0/mine.txt
ends convert in out --overwrite
ends verify out
