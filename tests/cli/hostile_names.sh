# Names from files: nothing of them moves a cursor, rings a bell or begins a line of its own.
python3 "$TESTS/cli/hostile_names.py" "$HFSHARD"
