# Outputs that must not be touched, and memory that does not suffice: status 3, and everything stays as it was.
source "$TESTS/cli/lib.bash"
example qwen3 in
mkdir full
echo mine > full/notes.txt
echo mine > file

show convert in in/out
show convert in in
show convert in full --quiet
show convert in full --quiet --overwrite
show convert in file --quiet
show convert in out --quiet --max-memory 1MiB
show convert in out --quiet --max-memory 20000000
cat full/notes.txt file
ls -A in full
ls -A

ends convert in out
show convert in out --quiet
show convert in out --quiet --resume
show convert in out --quiet --layers separate --resume
ends convert in out --layers separate --overwrite
ends verify out in
ends convert in out --step 7
ls -A out
show finalize out --quiet
show clean out
show clean nowhere
ends verify nowhere
show verify in
show inspect full
