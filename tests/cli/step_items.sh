# Steps as other programs save them: padded numbers, several trees, items of no files and metadata that isn't an object.
source "$TESTS/cli/lib.bash"
shown() {
  echo "\$ hfshard $*"
  local status=0
  "$HFSHARD" "$@" >"$T/.out" 2>&1 || status=$?
  grep -vE '^(family|digest|verified) ' "$T/.out" | sed 's/ ([0-9.]* [KM]iB in [0-9.]* s)$//' || true
  rm "$T/.out"
  echo "exit $status"
}
foreign() { # DIRECTORY: a step that hfshard didn't write
  rm -f "$1"/hfshard*.json
  python3 - "$1" "${2-null}" <<'P'
import json, pathlib, sys
step = pathlib.Path(sys.argv[1])
for file in [step / "_CHECKPOINT_METADATA", *step.glob("*/_METADATA")]:
    text = json.loads(file.read_text())
    text["custom_metadata"] = json.loads(sys.argv[2]) if file.name == "_METADATA" else {}
    file.write_text(json.dumps(text))
P
}
example qwen3 hf
"$HFSHARD" convert hf tree --num-layers 1 --quiet
foreign tree/0

echo "-- padded numbers, one of which fills the width"
mkdir run
for step in 099 100 1000; do cp -r tree/0 run/$step; done
shown inspect run --summary
shown reshard run out --steps all
ls out
shown reshard run one --step 99
echo {} >run/config.json
cp -r tree/0 run/model_7
shown reshard run last --steps -2 --items all
mkdir run/2000
shown reshard run two

echo "-- trees of other names, and an item of no files"
mkdir -p several/5/notes
cp -r tree/0/_CHECKPOINT_METADATA several/5/
cp -r tree/0/items several/5/model
"$HFSHARD" reshard tree small --dtype bf16 --include '*norm*' --quiet
cp -r small/0/items several/5/optimizer
shown reshard several/5 whole --items all
ls whole/5
shown diff several whole
shown reshard several/5/model item --items all
rm -r whole/5/optimizer
cp -r tree/0/items whole/5/optimizer
shown diff several whole --exclude '*layers*'
shown diff several whole --items model
shown diff several whole --items model --include 'nothing*'
shown diff several whole --items notes
mkdir -p whole/5/of/{a..z}
for name in {a..z}; do mkdir whole/5/of-$name; done
shown diff several whole --items all | grep -E 'structure|more'
shown diff several whole --all | grep -c 'only in B'

echo "-- a linked checkpoint: its record of links isn't an item"
"$HFSHARD" link hf linked --scheme hf --quiet
for steps in "" "--steps all"; do
  rm -rf unlinked
  shown reshard linked unlinked $steps --items all
  shown verify unlinked
  ends inspect unlinked --data
done

echo "-- custom metadata of any kind"
for metadata in '[1, {"a": null}]' '"a note"' 5; do
  rm -rf listed kept
  cp -r tree listed
  foreign listed/0 "$metadata"
  shown reshard listed kept
  python3 -c 'import json; print(json.load(open("kept/0/items/_METADATA"))["custom_metadata"])'
  shown verify kept
  shown diff listed kept
done
shown diff tree kept
