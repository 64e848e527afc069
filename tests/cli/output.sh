# Outputs that must not be touched, and memory that does not suffice: status 3, and everything stays as it was.
source "$TESTS/cli/lib.bash"
example qwen3 in
mkdir full
echo mine > full/notes.txt
echo mine > file

show convert in in/out
show convert in in
mkdir -p above && cp -r in above/model
show convert ./above/model above
rm -r above
told convert in full
told convert in full --overwrite
told convert in file
told convert in out --jobs 2 --max-memory 1MiB
told convert in out --jobs 2 --max-memory 20000000
cat full/notes.txt file
ls -A in full
ls -A

ends convert in out
told convert in out
told convert in out --resume
told convert in out --layers separate --resume
ends convert in out --layers separate --overwrite
ends verify out in
ends convert in out --output-step 7
ls -A out
told finalize out
show clean out
show clean nowhere
ends verify nowhere
show verify in
show inspect full
