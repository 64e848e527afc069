# Color: --color, NO_COLOR and CLICOLOR_FORCE; of errors, warnings and differences, and never inside JSON or text of a file.
source "$TESTS/cli/lib.bash"
unset NO_COLOR CLICOLOR CLICOLOR_FORCE
example qwen3 in
first() { "$HFSHARD" convert nowhere out "$@" 2>&1 | head -1 | cat -v; }
echo "-- errors"
first
first --color always
first --color=always --no-such-flag
first --color never
first --color sometimes
CLICOLOR_FORCE=1 first
CLICOLOR_FORCE=0 first
NO_COLOR=1 CLICOLOR_FORCE=1 first
NO_COLOR= CLICOLOR_FORCE=1 first
NO_COLOR=1 first --color always
CLICOLOR_FORCE=1 first --json | sed 's/:.*//'
echo "-- differences"
"$HFSHARD" convert in out >/dev/null 2>&1
cp -r in changed
printf 'X' | dd of=changed/model.safetensors bs=1 seek=$(($(stat -c %s in/model.safetensors) - 3)) conv=notrunc status=none
for color in always never; do "$HFSHARD" diff in changed --color $color | grep -aE 'DIFFERENT|differs' | cat -v; done
"$HFSHARD" verify out changed --color always | grep -aE 'differs|FAILED' | cat -v | cut -c1-40 || true
"$HFSHARD" verify out in --color always | cat -v
echo "-- warnings"
python3 - <<'PYTHON'
import json
config = json.load(open("in/config.json"))
json.dump({**config, "hidden_act": "gelu"}, open("in/config.json", "w"))
PYTHON
"$HFSHARD" plan in --exclude 'lm_head*' --color always 2>&1 >/dev/null | cat -v | grep warning: | cut -c1-40
