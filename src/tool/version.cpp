#include "tool/version.h"

#include <hfshard_build.h>
#include <string_view>

#include <fmt/format.h>

#include "base/text.h"
#include "base/version.h"

#include "hfshard/mappings.h"

namespace hfshard {
namespace {

// The peers of scripts/requirements-*.txt; tests/lint/versions_test.py compares their releases.
constexpr std::string_view kPeers =
    "torchtitan 0.3.0, Orbax 0.12.8, torch 2.13.0, transformers 5.24.0";

constexpr std::string_view compiler() {
#if defined(__clang__)
  return "clang " __clang_version__;
#else
  return "g++ " __VERSION__;
#endif
}

constexpr std::string_view architecture() {
#if defined(__x86_64__)
  return "x86_64";
#elif defined(__aarch64__)
  return "aarch64";
#else
  return "unknown architecture";
#endif
}

}  // namespace

std::string version_text() {
  return fmt::format(
      "hfshard {}\n"
      "commit    {}\n"
      "compiler  {}, {}\n"
      "libraries {}\n"
      "tested    MaxText {}, {}\n",
      kVersion, kBuiltCommit, compiler(), architecture(), kBuiltLibraries,
      join(list_releases("maxtext"), " and "), kPeers);
}

}  // namespace hfshard
