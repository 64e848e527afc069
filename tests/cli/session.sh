# A small session, from an example to a verified checkpoint.
source "$TESTS/cli/lib.bash"
show mappings example qwen3 in --quiet
show mappings check in --quiet
show plan in --mesh fsdp=2 --quiet
show convert in out --mesh fsdp=2 --quiet
tree out
show verify out in --quiet
show verify out --quiet
show inspect out --quiet
show inspect out --data --quiet | tail -1
show convert in out --mesh fsdp=2 --quiet --resume
show clean out --quiet
show convert in --to null --quiet
echo "-- workers"
for share in 1/3 0/3; do
  ends convert in shared --mesh fsdp=2 --worker $share
done
show finalize shared --quiet
ends convert in shared --mesh fsdp=2 --worker 2/3
show finalize shared --quiet
diff -r out shared && echo "the same tree"
show finalize shared --quiet
show finalize nothing --quiet
for share in 0/2 1/2; do
  ends convert in shared --layers separate --overwrite --worker $share
done
show finalize shared --quiet
ends finalize shared --overwrite
ends verify shared in
echo "-- clean"
ends convert in left --mesh fsdp=2 --worker 0/3
ls -A
show clean left --quiet
ls -A
echo "-- what is not ours"
cp -r in .theirs.hfshard
show convert in theirs --quiet
show clean theirs --quiet
show convert .theirs.hfshard theirs --quiet
ls .theirs.hfshard
mkdir -p step/0 && cp in/config.json step/0
show convert in step --overwrite --quiet
echo "-- a tensor that feeds several leaves is one"
example phi3 fused
"$HFSHARD" inspect fused | grep ' tensors, '
ends convert fused parts
show verify parts --quiet
show verify parts fused --quiet
