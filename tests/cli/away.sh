# A hub where nobody listens: said while one waits, and given up soon.
source "$TESTS/cli/lib.bash"
export HF_HUB_OFFLINE=0 no_proxy=127.0.0.1 HF_ENDPOINT=http://127.0.0.1:1
COLUMNS=200 show plan org/name  # the times keep its lines
