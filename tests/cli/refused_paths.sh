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
told convert model '~/out'
told convert model '~'
show clean '~/out'
echo "-- long names"
long=$(printf 'n%.0s' {1..247})
told convert model "$long" | sed "s/$long/LONG/g"
ends convert model "${long:1}"
ls | cut -c 1-20
echo "-- the directory where one stands, as a shell completes it"
"$HFSHARD" convert model out --quiet >/dev/null
(cd out && show verify ./ && show verify 0/ && show inspect ./ | head -2)
(cd out/0 && show verify ../ && show diff ./ ../../model | tail -3 && show verify nothing)
echo "-- directories that are gone, links that lead back"
ln -s loop loop
ln -s nowhere dangling
mkdir gone
(cd gone && rmdir ../gone && told convert "$T/model" out && told inspect .)
for command in convert "link" "reshard"; do told $command model loop; done
show link loop --in-place
told convert model dangling
for source in nothing dangling loop; do show reshard "$source" other; done
show plan "file://$T/model"
told convert model https://host/out
"$HFSHARD" convert model root --quiet
told convert root root/x --to safetensors
told reshard root root/0/x
told convert model root --config nope --to safetensors
told convert -dash other
echo "-- entries beside a source whose target can't be looked up"
"$HFSHARD" convert model torch --to dcp --quiet
ends convert torch from-torch --to safetensors
ends verify torch model
ends diff torch model
ends convert model torch --to dcp --overwrite
told convert model other --step 3
ln -s ../loop model/loop
ends convert model other
echo "-- a directory beside the files that may not be looked into, as lost+found of a volume"
# Root may look into every directory, unless that is taken from it.
as=
[ "$(id -u)" != 0 ] || as="setpriv --bounding-set -dac_override,-dac_read_search"
for place in model out out/0 out/0/items; do
  mkdir -m 0 "$place/lost+found"
  for command in "inspect $place" "verify out model" "diff out model" "reshard out again"; do
    $as "$HFSHARD" $command >said.txt 2>&1 && echo "$command: exit 0" || { echo "exit $?"; cat said.txt; }
    rm -rf again
  done
  rmdir "$place/lost+found"
done
mkdir odd steps
mkdir -m 0 odd/lost+found out/007 steps/global_step1
for place in odd out steps; do
  $as "$HFSHARD" inspect "$place" >said.txt 2>&1 && echo "inspect $place: exit 0" || { echo "exit $?"; cat said.txt; }
done
rmdir odd/lost+found out/007 steps/global_step1 odd steps
mkdir -p closed/model
chmod 0 closed
ln -s ../closed/x model/closed
env -u HF_TOKEN HF_HOME=closed/hub $as "$HFSHARD" inspect closed/model 2>&1 || echo "exit $?"
$as "$HFSHARD" inspect model >said.txt 2>&1 && echo "inspect model: exit 0"
chmod 700 closed
echo "-- a limit of the size of files"
(ulimit -f 20 && told convert model limited)
ends convert model limited --resume
echo "-- outputs in another checkpoint, or with the name of one of its steps"
for out in out/7 out/0/more out/0/items/more out/0/a/b; do
  told convert model "$out"
  told convert model "$out" --to dcp
done
ends verify out model
for out in out/hf/7 out/seven torch/7; do ends convert model "$out"; done
mkdir sweep
for out in sweep/1 sweep/2; do ends convert model "$out"; done
echo "-- outputs of another format"
told convert model out --to dcp --overwrite
