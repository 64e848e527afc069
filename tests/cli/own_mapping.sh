# A family that is not built in, and a changed one: it is found, recorded, and named in errors.
source "$TESTS/cli/lib.bash"
unset HFSHARD_MAPPINGS
MAPPINGS=$TESTS/../mappings
mkdir own
# Qwen3 under another name.
sed 's/"qwen3"/"mine"/g; s/Qwen3ForCausalLM/MineForCausalLM/g' \
  "$MAPPINGS/qwen3.json" > own/mine.json

echo "-- without the file nobody knows it, with it it is proved, shown and converted"
ends mappings show mine
ends mappings show mine --mapping own/mine.json
ends mappings show --mapping own/mine.json
"$HFSHARD" mappings check --mapping own/mine.json | tail -1
"$HFSHARD" mappings example mine in --mapping own/mine.json --quiet >/dev/null
ends convert in out
ends convert in out --mapping own/mine.json
ends mappings check in --mapping own/mine.json
HFSHARD_MAPPINGS=own ends mappings check in
HFSHARD_MAPPINGS=own "$HFSHARD" mappings list | grep -c '^mine '
"$HFSHARD" mappings list --mapping own/mine.json | grep -c '^mine '
# Files of the directory that are no family: the schema, parts, other JSON. A damaged family is still one.
cp "$MAPPINGS/../mappings/common.json" own
echo '{"name": "something else"}' >own/package.json
echo '[1, 2' >own/damaged.json
mkdir own/folder.json
HFSHARD_MAPPINGS=own ends mappings check in
rm -r own/common.json own/package.json own/damaged.json own/folder.json

echo "-- the plan records its text: workers need it, verify and finalize do not"
id() { "$HFSHARD" plan in --json "$@" | tr ',' '\n' | grep -o '"plan_id": *"[0-9a-f]*"'; }
[ "$(id --mapping own/mine.json)" = "$(HFSHARD_MAPPINGS=own id)" ] && echo "the same plan from a flag and from the directory"
[ "$(id --mapping own/mine.json)" = "$(id --mapping "$T/own/mine.json")" ] && echo "and by another path"
sed 's/"example": {/"example":  {/' own/mine.json > mine.json
[ "$(id --mapping own/mine.json)" != "$(id --mapping mine.json)" ] && echo "another plan from another text"
[ "$(HFSHARD_MAPPINGS=own id --mapping mine.json)" = "$(id --mapping mine.json)" ] && echo "the flag comes before the directory"
ends convert in shared --worker 0/2 --mapping own/mine.json
ends convert in shared --worker 1/2 --mapping mine.json
ends convert in shared --worker 1/2 --mapping own/mine.json
mv own/mine.json kept.json
ends finalize shared
ends verify shared in
ends verify out in
cmp out/0/hfshard.json shared/0/hfshard.json && echo "one manifest, however it was made"
mv kept.json own/mine.json

echo "-- a changed family stands in place of the built-in one"
example qwen3 built_in
sed 's/"head_norms", "mlp"/"mlp"/' "$MAPPINGS/qwen3.json" > changed.json
show mappings check built_in --mapping changed.json

echo "-- a family that asks for a key that no config has"
sed 's/"K": "num_key_value_heads"/"K": "no_such_key"/' own/mine.json >broken.json
show mappings check --mapping broken.json | tail -5
"$HFSHARD" mappings check --mapping broken.json --json | grep -o '"problem_count":[0-9]*'

echo "-- names that stay the same: the family tells whether the model is complete"
ends convert in part --to safetensors --scheme hf --exclude 'model.layers.1.self_attn.q_norm.*'
rm part/hfshard.json
HFSHARD_MAPPINGS=own show convert part whole --scheme hf
ends convert in tree --scheme hf --exclude 'model.layers.1.self_attn.q_norm.*'
rm tree/0/hfshard.json
HFSHARD_MAPPINGS=own show convert tree whole --to safetensors --config in
HFSHARD_MAPPINGS=own ends convert in whole --scheme hf
[ "$(HFSHARD_MAPPINGS=own id --scheme hf)" = "$(id --scheme hf)" ] && echo "the plan is the same with and without it"

echo "-- mistakes"
show convert in other --mapping changed.json
sed 's/"head_norms", "mlp"/"head_norms", "mpl"/' own/mine.json > bad.json
show convert in other --mapping bad.json
sed 's/"schemes": {"maxtext": {/"schemes": {"maxtext": { "axes": {"H": "haeds"},/' own/mine.json > own/bad.json
show convert in other --mapping own/bad.json
echo '{"family": "mine",' > own/bad.json
for path in own/bad.json ./own/../own/bad.json "$T/own/bad.json"; do show plan in --mapping "$path"; done
HFSHARD_MAPPINGS=own show plan in
rm own/bad.json
show convert in other --mapping own/mine.json --mapping own/mine.json
show convert in other --mapping absent.json
show convert in other --mapping own/mine.json --scheme hf
