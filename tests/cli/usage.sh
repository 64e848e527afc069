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
show convert in out --mesh fsdp=2,tensor=x
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
show convert in out --mehs fsdp=2
show convert in out --jbos=3
show convert in out --mesh tp=2
show convert in out --mesh FSDP=2
show convert in out --dtype bfloat16
show convert in out --output-step -1
show convert in out --output-step 99999999999999999999
show convert in out --output-step 1e3
show convert in out -j -1
show convert in out --vocab 0
show plan in --devices-per-host 0
show convert in out --include 'nothing*'
show convert in out --exclude '*.weigth'
show convert in out --exclude '*'
show convert in gs://bucket/out
show link in s3://bucket/out
show convert hf://org/name out
show plan https://huggingface.co/org/name
show inspect gs://bucket/out
show finalize gs://bucket/out
echo "-- words without a place, twice, without a value; the beginning of a name; another dash"
show convert in out extra
show convert in out extra and more
show convert in out --to orbax --to dcp
show convert in out --quiet=x
show convert in out --worker ''
show convert in out --worker '' --json
show convert '' out
show verify ''
show inspect ''
show diff in ''
show mappings example qwen3 ''
show convert in out --over
show convert in out --res
show conv in out
show CONVERT in out
show mappings help
show help help | sed -n 2p
show convert "$(printf '\342\200\224mesh')" fsdp=2 in out | LC_ALL=C sed "s/$(printf '\342\200\224')/DASH/"
show convert -- in out --quiet
show plan in --option vocab=0
show plan in --option vocab=x
show plan in --with vocab
echo "-- names that --with and --option do not have"
example deepseek parts
show plan parts --with mpt
show link parts out --option mtpp=true
show convert parts out --with mtp,vision
show mappings check parts --option vocb=3
show mappings show deepseek --with mtpp
show mappings example deepseek new --option vision=true
show mappings check --all --with mtp
show plan in --scheme hf --with mtp
rm -r parts
echo "-- JSON for every failure after the command's name"
show convert in out --json --mehs fsdp=2
show plan --json in --step x
show mappings list --jsno --json
ls -A
echo "-- output that cannot be written"
"$HFSHARD" mappings list 2>&1 >/dev/full && echo "exit 0" || echo "exit $?"
