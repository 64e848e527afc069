# The sessions in README.md: every `$ ` command runs, and prints what is written there.
python3 "$TESTS/cli/readme.py" "$HFSHARD" "$TESTS/.."
