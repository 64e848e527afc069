# Every command's help. An option that does not work yet must not stand here.
source "$TESTS/cli/lib.bash"
show --version
show --help
for command in convert link reshard plan verify diff inspect fetch finalize clean mappings "mappings list" "mappings show" "mappings check" \
  "mappings example" completions man; do
  show $command --help
done
