# An index that doesn't fit its files: the files that transformers would load, or an error that names --ignore-index.
source "$TESTS/cli/lib.bash"
example qwen3 good
fresh() { # TITLE FILES: the example in `in`, cut into so many shards, with an index
  echo "-- $1"
  rm -rf in out
  cp -r good in
  [ "$2" = 0 ] || python3 "$TESTS/cli/shards.py" in/model.safetensors "$2"
}
index() { # PYTHON: changes `i`, the index
  python3 - "$1" <<'P'
import json, sys
path = "in/model.safetensors.index.json"
i = json.load(open(path))
w = i["weight_map"]
exec(sys.argv[1])
json.dump(i, open(path, "w"))
P
}
said() { # OPTIONS
  rm -rf out
  # A note's other lines are indented.
  "$HFSHARD" convert in out "$@" 2>&1 | sed -z 's/\n  series/ series/' | grep -E 'ignored|error|hint|tensor  ' || true
  "$HFSHARD" diff good out --quiet >/dev/null 2>&1 && echo "the same model" || echo "no such model"
}
fresh "a whole file beside a stale index" 3
rm in/model-*
cp good/model.safetensors in
said
"$HFSHARD" mappings check in --quiet | tail -1
fresh "a whole file beside an index that is right" 3
cp good/model.safetensors in
said
fresh "a whole file beside shards without an index" 3
rm in/*.index.json
cp good/model.safetensors in
said
fresh "a complete series beside the index of another one" 2
index "[w.__setitem__(k, v.replace('of-00002', 'of-00003')) for k, v in list(w.items())]"
said
fresh "a part of the series that the index lists" 3
rm in/model-00002-of-00003.safetensors
said
said --ignore-index
fresh "a series that isn't complete either" 3
rm in/model-00002-of-00003.safetensors
index "[w.__setitem__(k, 'model-00001-of-00007.safetensors') for k in w]"
said
fresh "shards named with ./" 2
index "[w.__setitem__(k, './' + v) for k, v in list(w.items())]"
said
fresh "a tensor that no file holds" 2
index "w['model.ghost.weight'] = 'model-00001-of-00002.safetensors'"
said
said --ignore-index
fresh "a tensor that the index omits" 2
index "del w['model.norm.weight']"
said
said --ignore-index
fresh "a tensor in another file" 2
index "w['model.norm.weight'] = 'model-0000%d-of-00002.safetensors' % (3 - int(w['model.norm.weight'][10]))"
said
said --ignore-index
fresh "a tensor that is listed twice" 2
sed -i 's/"weight_map": {/&"model.norm.weight": "model-00001-of-00002.safetensors", /' in/model.safetensors.index.json
said
said --ignore-index
"$HFSHARD" verify out in --quiet >/dev/null && echo "verified without the index"
for command in "inspect in" "diff in good" "mappings check in"; do
  ends $command
  ends $command --ignore-index
done
show convert out never --to safetensors --ignore-index
twice() { # [PYTHON]: a tensor of the first of two shards is in the second one too, there with these bytes
  python3 - "${1:-data}" <<'P'
import json, sys
files = [f"in/model-0000{i}-of-00002.safetensors" for i in (1, 2)]
def read(path):
    data = open(path, "rb").read()
    begin = 8 + int.from_bytes(data[:8], "little")
    return json.loads(data[8:begin]), data[begin:]
header, body = read(files[0])
name = sorted(header.keys() - {"__metadata__"})[0]
first, end = header[name]["data_offsets"]
data = body[first:end]
other, more = read(files[1])
data = eval(sys.argv[1])
other[name] = header[name] | {"data_offsets": [len(more), len(more) + len(data)]}
text = json.dumps(other).encode()
open(files[1], "wb").write(len(text).to_bytes(8, "little") + text + more + data)
P
}
told_twice() { # OPTIONS
  rm -rf out
  COLUMNS=1000 "$HFSHARD" convert in out "$@" 2>&1 | grep -E 'two files|error|hint|tensor  ' || true
  "$HFSHARD" diff good out --quiet >/dev/null 2>&1 && echo "the same model" || echo "no such model"
}
for bytes in data 'data[:-1] + bytes([data[-1] ^ 1])'; do
  fresh "a tensor in two shards: $bytes" 2
  twice "$bytes"
  told_twice
  told_twice --ignore-index
  rm in/*.index.json
  told_twice
done
fresh "the index names the second copy, which differs" 2
twice 'data[:-1] + bytes([data[-1] ^ 1])'
index "name = sorted(k for k in w if w[k].startswith('model-00001'))[0]; w[name] = 'model-00002-of-00002.safetensors'"
told_twice
fresh "a stray file has the tensor of a shard" 1
mv in/model-00001-of-00001.safetensors in/model-a.safetensors
rm in/*.index.json
cp in/model-a.safetensors in/model-b.safetensors
told_twice
printf '\1' | dd of=in/model-b.safetensors bs=1 seek=$(($(stat -c %s in/model-b.safetensors) - 1)) conv=notrunc status=none
told_twice
told_twice --exclude model-b.safetensors
fresh "two variants in shards, without an index" 2
rm in/*.index.json
for part in 00001 00002; do
  cp in/model-$part-of-00002.safetensors in/model.fp16-$part-of-00002.safetensors
  printf '\1' | dd of=in/model.fp16-$part-of-00002.safetensors bs=1 seek=$(($(stat -c %s in/model.fp16-$part-of-00002.safetensors) - 1)) conv=notrunc status=none
done
told_twice
told_twice --exclude 'model.fp16-*.safetensors'
