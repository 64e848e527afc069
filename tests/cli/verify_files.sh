# Every file that a conversion wrote or copied is verified, not the tensors alone.
source "$TESTS/cli/lib.bash"
cp -r "$TESTS/oracle/qwen3" hf
rm hf/expected.json
printf '{"a": 1}' >hf/tokenizer.json
for to in orbax dcp safetensors; do "$HFSHARD" convert hf $to --to $to -q >made; done
"$HFSHARD" link hf linked -q >made
"$HFSHARD" link hf reflinked -q --digests --shards symbolic >made
"$HFSHARD" convert orbax back --to safetensors -q >made
"$HFSHARD" reshard orbax again --mesh fsdp=2 -q >made
for worker in 0/2 1/2; do "$HFSHARD" convert hf shared --worker $worker -q >made; done
"$HFSHARD" finalize shared -q >made
cp -r hf inside && mkdir beside
"$HFSHARD" link inside --in-place --side-file -q >made
python3 "$TESTS/cli/verify_files.py" "$HFSHARD" orbax dcp safetensors back again shared
# What a link leads to is the source's own file, so each is damaged in a copy.
cp -rp linked copied && python3 "$TESTS/cli/verify_files.py" "$HFSHARD" copied
cp -rpL reflinked copied2 && python3 "$TESTS/cli/verify_files.py" "$HFSHARD" copied2
echo "--- in place: the index alone"
mv inside/config.json inside/tokenizer.json inside/model.safetensors.index.json beside
python3 "$TESTS/cli/verify_files.py" "$HFSHARD" inside
echo "--- a file beside the tree: it is named once"
cp -r orbax others && mkdir others/0/iter && printf '{"a": 1}' >others/0/iter/0
mkdir others/metadata && printf '{"custom_metadata": {"a": 1}}' >others/metadata/_ROOT_METADATA
"$HFSHARD" reshard others besides --items all -q >made
python3 "$TESTS/cli/verify_files.py" "$HFSHARD" besides
show verify besides others
rm besides/0/iter/0 && show verify besides others
printf '{"a": 2}' >besides/0/iter/0 && show verify besides others
echo "--- as it is printed"
show verify orbax
printf '{"a": 2}' >orbax/hf/tokenizer.json
rm orbax/0/items/_METADATA
show verify orbax
show verify orbax hf
echo "--- a step alone, and a root without its hf/"
cp -r again/0 alone && show verify alone
rm -r again/hf && show verify again/0 | tail -1
show verify again
echo "--- a record of before 0.2.0 has no files"
python3 - dcp/hfshard.json <<'P'
import re, sys
text = open(sys.argv[1]).read()
text = re.sub(r',\n"(files|side_files|record_sha256)":\[[^\]]*\]', "", text)
open(sys.argv[1], "w").write(text)
P
show verify dcp
