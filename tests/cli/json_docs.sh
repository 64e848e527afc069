# What docs/json.md says is what the commands print.
python3 "$TESTS/cli/json_docs.py" "$HFSHARD" "$TESTS/../docs/json.md"
