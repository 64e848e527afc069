# Two checkpoints: of one model in several forms, with one bit between them, with damage, and of other names and dtypes.
source "$TESTS/cli/lib.bash"
example qwen3 in
for layers in stacked separate; do
  "$HFSHARD" convert in "$layers" --layers "$layers" --checksum none --quiet >/dev/null
done
show diff in stacked
told diff separate stacked
echo "-- one bit"
cp -r in other
size=$(stat -c %s other/model.safetensors)
printf '\001' | dd of=other/model.safetensors bs=1 seek=$((size - 2)) conv=notrunc status=none
show diff in other
show diff other stacked
"$HFSHARD" diff in other --json | grep -o '"largest_ulps":[0-9]*\|"byte":[0-9]*'
show diff in other --tolerance 0.5ulp
ends diff in other --tolerance 65535ulp
ends diff in other --exclude '*embed*' --exclude '*v_proj*'
ends diff in other --all --include '*norm*'
show diff in other --include nothing
echo "-- dtypes and names"
"$HFSHARD" convert in wide --scheme hf --dtype f32 --exclude '*norm*' --to safetensors --quiet >/dev/null
show diff in wide | head -12
show diff wide in --dtype-aware | tail -2
"$HFSHARD" diff wide in --dtype-aware --all | grep -c '^equal '
echo "-- damage"
"$HFSHARD" convert in sums --quiet >/dev/null
printf '\377' | dd of=sums/0/items/d/00000 bs=1 seek=100 conv=notrunc status=none
show diff in sums
truncate -s 100 sums/0/items/d/00000
show diff in sums
show diff in nowhere
