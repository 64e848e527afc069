# What plan says of the processor time that compressing takes.
python3 "$TESTS/cli/codec_time.py" "$HFSHARD"
