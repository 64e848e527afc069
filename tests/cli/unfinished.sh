# An output whose run has not ended: `inspect` and `verify` say so, and how to go on. A root with several steps: which.
source "$TESTS/cli/lib.bash"
cp -r "$TESTS/oracle/qwen3" in
look() {
  show inspect "$@"
  show mappings check "$@"
  show verify "$@"
}
echo "-- shares of workers"
ends convert in out --worker 2/3
ends convert in out --worker 0/3
look out
echo "-- the staging directory, and below it"
look .out.hfshard
show verify .out.hfshard/out/0
(cd .out.hfshard && show inspect .)
told convert .out.hfshard other
told reshard out other
echo "-- a step of it, and an empty directory in its place"
show inspect out/0 --json
mkdir out
show verify out/
echo "-- finished: nothing to say"
ends convert in out --worker 1/3
ends finalize out
show verify out
echo "-- one process"
ends convert in begun --worker 1/2
mv .begun.hfshard/journal.1-2.0000 .begun.hfshard/journal.0-1.0000
look begun
ends convert in begun --resume
show verify begun
echo "-- where a shell would take the names apart"
mv in "my in"
ends convert "my in" "it's mine" --worker 1/2
show verify "it's mine"
mv ".it's mine.hfshard/journal.1-2.0000" ".it's mine.hfshard/journal.0-1.0000"
show verify "it's mine"
mv "my in" in
echo "-- an index"
ends convert in linked --worker 1/2
mv .linked.hfshard/journal.1-2.0000 .linked.hfshard/journal.0-1.0000
sed -i 's/"options": {/"options": {"link": "files", "digests": true,/' .linked.hfshard/plan.json
look linked
echo "-- while a process is at work on it"
(flock 9; look linked) 9<.linked.hfshard/hfshard.lock
echo "-- what is left of a run that has published is no unfinished one"
ends convert in left
ends convert in left --output-step 1 --worker 0/2
echo '{"step": "out/1", "inode": 1, "hf": 0}' >.left.hfshard/publishing.json
show verify left
echo "-- of a root with several steps"
ends convert in out --output-step 2
ends convert in out --output-step 10
show inspect out | head -3
show verify out
"$HFSHARD" inspect out --json | grep -o '"step":[0-9]*\|"other_steps":[^]]*]'
"$HFSHARD" verify out --json | grep -o '"step":[0-9]*\|"other_steps":[^]]*]'
show inspect out/2 | head -2
echo "-- of which another one isn't finished"
ends convert in out --output-step 11 --worker 0/2
show inspect out | head -6
show verify out
told verify out
echo "-- a directory that only has such a name"
mkdir -p .mine.hfshard
look mine
echo "-- the staging directory in place of the output"
ends convert in half --worker 0/2
ends convert in half --worker 1/2
ends finalize .half.hfshard
ends verify half in
ends convert in half --output-step 1 --worker 0/2
told clean .half.hfshard/
told clean .half.hfshard/out
ls -d .half.hfshard half/1 2>/dev/null || echo "it is gone"
