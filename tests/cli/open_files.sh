# A source with more files than the soft limit of open files. The hard limit counts.
source "$TESTS/cli/lib.bash"
example qwen3 in
"$HFSHARD" convert in many --to safetensors --scheme hf --shard-bytes 512 --quiet >/dev/null
(ulimit -Sn 16 && ends convert many out && ends verify out many)
(ulimit -n 16 && told convert many refused)
tree refused
