# Shared by quickstart and test: messages, packages, a fitting CMake. Sourced, never run.
# Sets `root` (the top of the tree) and goes there.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
phases_begun=false
# What only saves time: objects of ccache, verdicts of clang-tidy, environments of the peers.
cache=${XDG_CACHE_HOME:-$HOME/.cache}/hfshard

packages_build=(g++ cmake ninja-build pkg-config python3 nlohmann-json3-dev libsimdjson-dev libcli11-dev
  libtbb-dev libxxhash-dev libzstd-dev zlib1g-dev libssl-dev libfmt-dev libcurl4-openssl-dev)
packages_test=(libgtest-dev libgmock-dev libbenchmark-dev python3-venv python3-pip python3-yaml git strace zsh fish
  groff-base mandoc man-db zstd curl openssl ccache)
# Another version would want another format and warn of other things; Debian 12 has this one, 13 doesn't.
packages_lint=(clang-14 clang-format-14 clang-tidy-14)

# say PHASE: names the phase that begins, and notes in build/phases when it began.
say() {
  printf '\n== %s\n' "$*"
  mkdir -p build
  [ $phases_begun = true ] || : >build/phases
  phases_begun=true
  printf '%s\t%s\n' "$(date +%s.%N)" "$*" >>build/phases
}
note() { printf '   %s\n' "$*"; }
fail() {
  printf '\n%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

# as_root COMMAND...: runs it as root, through sudo only when needed.
as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    env DEBIAN_FRONTEND=noninteractive "$@"
  else
    sudo env DEBIAN_FRONTEND=noninteractive "$@"
  fi
}

# fetch_packages NAME...: updates the lists and installs the packages. A download that fails is tried again.
fetch_packages() {
  as_root apt-get -o Acquire::Retries=5 update -q </dev/null &&
    as_root apt-get -o Acquire::Retries=5 install -q -y --no-install-recommends "$@" </dev/null
}

# install_packages NAME...: installs what is missing, and touches nothing when nothing is.
install_packages() {
  local missing=() name
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    note "no apt-get here; on this system the packages that match these must be present:"
    note "$*"
    return 0
  fi
  for name in "$@"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null)" = installed ] || missing+=("$name")
  done
  if [ ${#missing[@]} -eq 0 ]; then
    note "all ${#} packages are already installed"
    return 0
  fi
  if [ "$(id -u)" -ne 0 ] && ! command -v sudo >/dev/null; then
    fail "these packages are missing, and there is neither root nor sudo to install them: ${missing[*]}"
  fi
  note "installing: ${missing[*]}"
  mkdir -p build
  { fetch_packages "${missing[@]}" || { sleep 5 && fetch_packages "${missing[@]}"; }; } >build/apt.log 2>&1 || {
    tail -n 20 build/apt.log >&2
    fail "apt-get failed twice; the whole output is in build/apt.log"
  }
}

# install_if_there NAME...: installs those that the system's packages have; says which it doesn't have.
install_if_there() {
  local there=() name
  command -v apt-cache >/dev/null || return 0
  for name in "$@"; do
    if apt-cache show "$name" >/dev/null 2>&1; then
      there+=("$name")
    else
      note "LINT MISSING $name: this system has no such package"
    fi
  done
  [ ${#there[@]} -eq 0 ] || install_packages "${there[@]}"
}

# version_at_least HAVE WANT: compares dotted versions.
version_at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

# pick_cmake: sets `cmake` and `ctest`. The system's own comes first: a newer one that pip or pyenv put in front of
# PATH may search other prefixes than the one that the packages above went to.
pick_cmake() {
  local candidate have
  for candidate in /usr/bin/cmake "$(command -v cmake || true)"; do
    [ -n "$candidate" ] && [ -x "$candidate" ] || continue
    have=$("$candidate" --version 2>/dev/null | sed -n '1s/.*version \([0-9.]*\).*/\1/p')
    [ -n "$have" ] && version_at_least "$have" 3.25 || continue
    cmake=$candidate
    ctest=$(dirname "$candidate")/ctest
    [ -x "$ctest" ] || continue
    return 0
  done
  fail "CMake 3.25 or newer is needed"
}

jobs() {
  local count
  count=$(nproc 2>/dev/null || echo 2)
  echo "${CMAKE_BUILD_PARALLEL_LEVEL:-$count}"
}

# use_ccache: true if ccache can be used. Its cache is outside the tree, so that a fresh clone finds what another one compiled.
# Absolute paths below the root are hashed as relative ones, and the working directory isn't hashed.
use_ccache() {
  command -v ccache >/dev/null || return 1
  export CCACHE_DIR=$cache/ccache CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1 CCACHE_MAXSIZE=2G CCACHE_COMPRESS=1
  export CCACHE_CONFIGPATH=$CCACHE_DIR/ccache.conf CCACHE_STATSLOG=$root/build/ccache.log
  [ -z "${ccache_works:-}" ] || return "$ccache_works"
  # A cache that is read-only or damaged must not fail a build.
  ccache_works=1
  mkdir -p "$CCACHE_DIR/tmp" build 2>/dev/null && [ -w "$CCACHE_DIR" ] && printf 'int main() {}\n' >build/probe.cpp &&
    ccache g++ -c build/probe.cpp -o build/probe.o >/dev/null 2>&1 && ccache_works=0
  [ $ccache_works -eq 0 ] || note "ccache can't use $CCACHE_DIR; everything is compiled"
  return $ccache_works
}

# build_preset PRESET [-DNAME=VALUE...] [--target NAME...]: configures and builds, as quietly as it can; everything goes
# to build/<preset>.log.
build_preset() {
  local preset=$1 log options=() targets=()
  shift
  while [ $# -gt 0 ]; do
    case $1 in
      --target) targets+=(--target "$2"); shift 2 ;;
      *) options+=("$1"); shift ;;
    esac
  done
  if use_ccache; then options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); else options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=); fi
  mkdir -p build
  log=build/$preset.log
  "$cmake" --preset "$preset" "${options[@]}" >"$log" 2>&1 </dev/null || {
    tail -n 30 "$log" >&2
    fail "configuring $preset failed; the whole output is in $log"
  }
  nice "$cmake" --build --preset "$preset" -j "$(jobs)" "${targets[@]}" >>"$log" 2>&1 </dev/null || {
    grep -E -A 6 '(error|FAILED|undefined reference)' "$log" | head -n 60 >&2 || tail -n 30 "$log" >&2
    fail "building $preset failed; the whole output is in $log"
  }
}
