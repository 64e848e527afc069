# Paths that the system, or we, cannot take: what to do is said, nothing hangs and nothing is written.
source "$TESTS/cli/lib.bash"
"$HFSHARD" mappings example qwen3 model --quiet >/dev/null
mkdir pipe socket
cp model/config.json pipe
cp model/config.json socket
mkfifo pipe/model.safetensors alone.safetensors
python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("socket/model.safetensors")'
echo "-- no files"
for source in pipe socket alone.safetensors; do show plan "$source"; done
echo "-- a tilde in quotes"
show plan '~/model'
show verify '~/out'
show convert model '~/out' --quiet
show convert model '~' --quiet
show clean '~/out'
echo "-- long names"
long=$(printf 'n%.0s' {1..247})
show convert model "$long" --quiet | sed "s/$long/LONG/g"
ends convert model "${long:1}"
ls | cut -c 1-20
