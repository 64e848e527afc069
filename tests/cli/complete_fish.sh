# What fish offers for each line of completions_lines.txt.
command -v fish >/dev/null || { echo "PEER MISSING fish"; exit 77; }
export HOME=$PWD/home PATH=$(dirname "$HFSHARD"):$PATH
mkdir -p home dir/sub
touch dir/file.json
"$HFSHARD" completions fish >hfshard.fish
fish --no-config --no-execute hfshard.fish
cat >offer.fish <<'END'
source hfshard.fish
while read -l line
    set -l offered (complete -C "$line" | string replace -r '\t.*' '' | sort)
    # fish 4 also offers words that only contain the letters. On a terminal, it shows them only if no word begins so.
    set -l begin (string match -- (string split ' ' -- $line)[-1]"*" $offered)
    and set offered $begin
    echo "$line => $offered"
end
END
sed "s/|\$//" "$TESTS/cli/completions_lines.txt" | fish --no-config offer.fish 2>&1
