# Names and paths in UTF-8 are printed as they are; what a terminal would obey is not.
source "$TESTS/cli/lib.bash"
name="$(printf 'M\303\274ller-\346\250\241\345\236\213')"
cp -r "$TESTS/oracle/qwen3" "$name"
# What is printed as it is gets a name in ASCII; an escape would not.
exec 3>&1
exec > >(LC_ALL=C sed "s/$name/NAME/g" >&3) 2>&1
filter=$!
echo "-- a path"
ends convert "$name" "out-$name"
"$HFSHARD" inspect "out-$name" | head -1
told verify "out-$name"
"$HFSHARD" verify "out-$name" --json | grep -o '"path":[^,]*'
show inspect "$name/nothing"
"$HFSHARD" inspect "$name/nothing" --json 2>&1 | grep -o '"file":[^,]*'
exec >&3 2>&1
wait "$filter"
echo "-- what would change a terminal, and what is no UTF-8"
name="$(printf 'a\033[2J\302\2331m\342\200\256b\377')"
"$HFSHARD" inspect "$name" 2>&1 || echo "exit $?"
"$HFSHARD" inspect "$name" --json 2>/dev/null || echo "exit $?"
cp -r "$TESTS/oracle/qwen3" "$name"
echo '{}' >"$name/tokenizer.json"
"$HFSHARD" inspect "$name" | head -1
"$HFSHARD" convert "$name" "out-$name" 2>/dev/null | sed -n '1p;$p'
"$HFSHARD" inspect in "$name" 2>&1 || echo "exit $?"
