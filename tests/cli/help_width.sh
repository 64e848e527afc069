# Help is as wide as its terminal, up to 80 columns.
python3 "$TESTS/cli/help_width.py" "$HFSHARD"
