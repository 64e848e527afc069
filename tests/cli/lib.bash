# What the cases share: `source "$TESTS/cli/lib.bash"`.

# Prints a command, what it says on either stream, and how it ends.
show() {
  echo "\$ hfshard $*"
  "$HFSHARD" "$@" 2>&1 && echo "exit 0" || echo "exit $?"
}

# The same without notes: the results, and then the error if there is one.
told() {
  echo "\$ hfshard $*"
  local status=0
  "$HFSHARD" "$@" 2>"$T/.notes" || status=$?
  sed -n '/^hfshard: /,$p' "$T/.notes"
  rm "$T/.notes"
  echo "exit $status"
}

# The same without the good lines: for a command of which only the end matters.
ends() {
  "$HFSHARD" "$@" >/dev/null 2>&1 && echo "hfshard $1: exit 0" || echo "hfshard $1: exit $?"
}

# The same without results: its notes and warnings, and how it ends.
noted() {
  echo "\$ hfshard $*"
  local status=0
  "$HFSHARD" "$@" >/dev/null 2>"$T/.notes" || status=$?
  grep -v '^note: reading step' "$T/.notes" || true
  rm "$T/.notes"
  echo "exit $status"
}

# A tiny checkpoint of a family in a directory.
example() {
  "$HFSHARD" mappings example "$1" "$2" --quiet >/dev/null 2>&1
}

# Gives tensors of a directory other names: DIRECTORY EXPRESSION.
rename() {
  python3 "$TESTS/cli/rename_tensors.py" "$1/model.safetensors" "$2"
}

# Everything below a directory.
tree() {
  find "$1" -mindepth 1 | LC_ALL=C sort
}
