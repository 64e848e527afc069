# The examples in each command's help: every one runs, in a directory that has what they name.
python3 "$TESTS/cli/examples.py" "$HFSHARD" "$TESTS/.."
