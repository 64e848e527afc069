# What isn't a tensor in a DCP: carried to another mesh, verified, compared, left out by name, damaged.
source "$TESTS/cli/lib.bash"
tiny() { python3 "$TESTS/support/tiny_dcp.py" "$@"; }
flip() { # FILE TEXT: changes a byte of the text
  python3 - "$@" <<'P'
import sys
data = open(sys.argv[1], "rb").read()
at = data.index(sys.argv[2].encode())
open(sys.argv[1], "wb").write(data[:at] + bytes([data[at] ^ 1]) + data[at + 1:])
P
}
tiny in
told plan in --to dcp --mesh fsdp=2 | grep -E '^output|objects|not converted'
told reshard in out --mesh fsdp=2 | grep -v digest
ls -A out
show verify out
show verify out in
show diff in out
cmp <(tail -c +1 out/__00001_0.distcp) <(python3 - <<'P'
import re
data = open("in/__0_0.distcp", "rb").read()
sys = __import__("sys")
sys.stdout.buffer.write(data[-(657 + 667 + 665):])
P
) && echo "byte for byte"
echo "--- in two shares, as in one run; once more"
for worker in 0/2 1/2; do "$HFSHARD" reshard in shared --mesh fsdp=2 --worker $worker 2>/dev/null; done
"$HFSHARD" finalize shared 2>/dev/null | grep published
diff -r out shared && echo "the same"
"$HFSHARD" reshard in out --mesh fsdp=2 --resume 2>/dev/null | grep already
echo "--- what differs"
tiny lr --lr 0.5
tiny dict --as-dict
tiny release --release 2
show diff in lr
show diff lr in --include 'model*' | tail -2
show diff in dict
show diff in release | tail -2
tiny packed --lr 0.5 --packed
show diff lr packed | tail -2
show diff in packed | tail -3
show verify out lr
echo "--- some of them"
"$HFSHARD" reshard in some --include 'layers*' --include '*.lr' --mesh fsdp=2 2>&1 | grep -E 'published|not converted'
show diff in some | tail -4
told reshard in some --include 'nothing*'
echo "--- where they have no place"
"$HFSHARD" convert in model --to safetensors --scheme hf 2>&1 | tr '\n' ' ' | grep -oE 'published|not converted.*hold'
show diff in model
"$HFSHARD" reshard in tree --to orbax 2>&1 | grep -A1 'not converted'
"$HFSHARD" reshard in null --to null 2>&1 | grep -c 'not converted' || true
"$HFSHARD" reshard in other --to orbax --dry-run --json --quiet | python3 -c 'import json, sys; print(json.load(sys.stdin)["drops"])'
echo "--- damage"
cp -r out bad && flip bad/__00001_0.distcp text
show inspect bad --data | tail -5
show verify bad
show diff in bad
rm bad/__00001_0.distcp
show diff in bad
cp -r in torn && flip torn/__0_0.distcp text
show inspect torn --data | tail -5
told reshard torn other
tiny long --cut 1
told reshard long other
truncate -s -1 in/__0_0.distcp
told reshard in other
show inspect in --data
show verify out in
echo "--- by a name that only objects have"
tiny again
show inspect again --filter '*.lr'
show inspect again --filter 'nothing*'
