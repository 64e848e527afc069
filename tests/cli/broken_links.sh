# Links of a download to files that are gone: the error names the end of the link, and the way to a whole download.
source "$TESTS/cli/lib.bash"
example qwen3 model
repo=hub/models--org--name
torn=$(printf 'a%.0s' {1..40}) whole=$(printf 'b%.0s' {1..40})
mkdir -p $repo/blobs $repo/refs
printf %s "$torn" >$repo/refs/main
for commit in "$torn" "$whole"; do
  mkdir -p $repo/snapshots/"$commit"
  for path in model/*; do
    cp "$path" $repo/blobs/of-"${path##*/}"
    ln -s ../../blobs/of-"${path##*/}" $repo/snapshots/"$commit/${path##*/}"
  done
done
export HF_HUB_CACHE=$PWD/hub HF_HUB_OFFLINE=1
echo "-- weights, and two snapshots"
ln -sf ../../blobs/gone $repo/snapshots/"$torn"/model.safetensors
told convert $repo/snapshots/"$torn" out
told convert hf://org/name out
told convert $repo out
ends convert hf://org/name@"$whole" out
ends diff model org/name --revision "$whole"
echo "-- config.json, and one snapshot"
rm -r $repo/snapshots/"$whole"
ln -sf ../../blobs/of-model.safetensors $repo/snapshots/"$torn"/model.safetensors
ln -sf ../../blobs/gone $repo/snapshots/"$torn"/config.json
told convert hf://org/name out2
echo "-- weights in another format aren't needed"
ln -sf ../../blobs/of-config.json $repo/snapshots/"$torn"/config.json
ln -s ../../blobs/gone $repo/snapshots/"$torn"/pytorch_model.bin
ends convert hf://org/name out3
echo "-- a copy of the links"
cp -rP $repo/snapshots/"$torn" plain
told convert plain out4
mkdir plain2
cp model/model.safetensors plain2
ln -s gone plain2/config.json
told convert plain2 out4
told inspect plain2
