# What zsh offers for each line of completions_lines.txt, in a terminal of its own: what is added to the matches.
command -v zsh >/dev/null || { echo "PEER MISSING zsh"; exit 77; }
mkdir -p functions dir/sub
touch dir/file.json
"$HFSHARD" completions zsh >functions/_hfshard
zsh -fn functions/_hfshard
cat >setup.zsh <<'END'
PROMPT=
fpath=($PWD/functions $fpath)
autoload -Uz compinit && compinit -u -d $PWD/dump
compadd() {
  local -a __added
  builtin compadd -O __added "$@"
  local __word
  for __word in $__added; do print -r -- "$IPREFIX$__word" >>seen; done
  builtin compadd "$@"
}
complete-and-say() {
  zle complete-word
  BUFFER=
  print -r -- '<COMPLETED>'
}
zle -N complete-and-say
bindkey '^I' complete-and-say
END
cat >offer.zsh <<'END'
zmodload zsh/zpty || exit 77
zpty terminal zsh -f -i
zpty -w terminal "source ./setup.zsh; print RE''ADY"
zpty -r -m terminal line '*READY*'
while IFS= read -r typed; do
  : >seen
  zpty -w -n terminal "$typed"$'\t'
  zpty -r -m terminal line '*<COMPLETED>*'
  print -r -- "$typed => $(LC_ALL=C sort -u seen | tr '\n' ' ')"
done
zpty -d terminal
END
sed "s/|\$//" "$TESTS/cli/completions_lines.txt" | timeout 120 zsh -f offer.zsh
