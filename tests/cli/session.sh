# A small session, from an example to a verified checkpoint.
source "$TESTS/cli/lib.bash"
told mappings example qwen3 in
told mappings check in
told plan in --mesh fsdp=2
told convert in out --mesh fsdp=2
tree out
told verify out in
told verify out
told inspect out
told inspect out --data | tail -1
told convert in out --mesh fsdp=2 --resume
told clean out
told convert in --to null
echo "-- workers"
for share in 1/3 0/3; do
  ends convert in shared --mesh fsdp=2 --worker $share
done
told finalize shared
ends convert in shared --mesh fsdp=2 --worker 2/3
told finalize shared
diff -r out shared && echo "the same tree"
told finalize shared
told finalize nothing
for share in 0/2 1/2; do
  ends convert in shared --layers separate --overwrite --worker $share
done
told finalize shared
ends finalize shared --overwrite
ends verify shared in
echo "-- clean"
ends convert in left --mesh fsdp=2 --worker 0/3
ls -A
told clean left
ls -A
echo "-- what is not ours"
cp -r in .theirs.hfshard
told convert in theirs
told clean theirs
told convert .theirs.hfshard theirs
ls .theirs.hfshard
mkdir -p step/0 && cp in/config.json step/0
told convert in step --overwrite
echo "-- a tensor that feeds several leaves is one"
example phi3 fused
"$HFSHARD" inspect fused | grep ' tensors, '
ends convert fused parts
told verify parts
told verify parts fused
