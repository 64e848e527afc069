# A wrong command line ends with 2 and touches nothing.
source "$TESTS/cli/lib.bash"
example qwen3 in
show
show convert
show convert in
show convert in out --no-such-flag
show conver in out
show frobnicate
show mappings chek in
show convert in out --layers staked
show convert in out --to orbx
show convert in out --scheme maxtex
show convert in out --mesh fdsp=2
show convert in out --mesh fsdp=0
show convert in out --mesh fsdp
show convert in out --mesh fsdp=2,fsdp=2
show convert in out --max-memory lots
show convert in out --chunk-bytes 0
show convert in out --worker 4/4
show convert in out --io fast
show convert in out --io-threads 257
show convert in out --compress zstd:23
show convert in out --compress gzip
show convert in --to null --compress zstd
show plan in --link --compress zstd
show link in out --compress zstd
show link in out --shards hardly
show convert in out --option rope
show convert in out --option nonsense=1
show convert in out --resume --overwrite
show convert in . --quiet
show convert in out --scheme hf --mesh fsdp=2
show mappings example no-such-family new
ls -A
echo "-- output that cannot be written"
"$HFSHARD" mappings list 2>&1 >/dev/full && echo "exit 0" || echo "exit $?"
