# Options that have no effect together.
python3 "$TESTS/cli/pairs.py" "$HFSHARD" "$TESTS"
