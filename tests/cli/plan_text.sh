# What is printed for people: within 80 columns, with the figures of --json.
python3 "$TESTS/cli/plan_text.py" "$HFSHARD" "$TESTS"
