# A refusal stands alone: warnings and notes on the plan come only if the run goes on.
source "$TESTS/cli/lib.bash"
# Prints a command, the first words of its warnings and errors, and how it ends.
warned() {
  noted "$@" | grep -oE "^[$] hfshard .*|^exit [0-9]+|^warning: MaxText's gelu|^hfshard: error .[a-z_]+.: .{20}"
}
example qwen3 in
sed -i '1s/{/{"hidden_act": "gelu",/' in/config.json
warned convert in out
warned convert in out
warned convert in out --resume
warned convert in small --max-memory 1MiB
warned link in linked
warned link in linked
warned link in small --max-memory 1MiB
