// Runs a target without libFuzzer, over its corpus and over inputs made from it by seeded changes:
//
//     fuzz TARGET DIRECTORY [COUNT [SEED [FILE]]]
//
// It reads every file in the directory. A finding ends the program. With FILE, its input is there.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "base/coding.h"
#include "fuzz/fuzz_target.h"
#include "support/temp_dir.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

class Mutator {
 public:
  Mutator(const std::vector<std::string>& corpus, std::uint64_t seed)
      : corpus_(corpus), random_(seed) {}

  std::string next() {
    std::string out = any();
    const std::uint64_t changes = 1 + below(6);
    for (std::uint64_t i = 0; i < changes; ++i) change(out);
    return out;
  }

 private:
  std::uint64_t below(std::uint64_t count) { return count == 0 ? 0 : random_() % count; }
  const std::string& any() { return corpus_[below(corpus_.size())]; }
  // Returns a place in a text, and a short length from there.
  std::pair<std::size_t, std::size_t> part_of(const std::string& text) {
    const std::size_t at = below(text.size() + 1);
    return {at, below(std::min<std::size_t>(text.size() - at, 64) + 1)};
  }

  void change(std::string& text) {
    const auto [at, length] = part_of(text);
    switch (below(7)) {
      case 0:  // a bit
        if (!text.empty()) text[below(text.size())] ^= static_cast<char>(1U << below(8));
        return;
      case 1: {  // a byte, often one with a meaning for a parser
        const std::string& other = any();
        const bool known = below(2) == 0 && !other.empty();
        if (!text.empty())
          text[below(text.size())] =
              known ? other[below(other.size())] : static_cast<char>(below(256));
        return;
      }
      case 2:
        text.resize(at);
        return;
      case 3:
        text.erase(at, length);
        return;
      case 4:  // again, many times
        text.insert(at, text.substr(at, length));
        for (std::uint64_t i = below(200); i > 0 && text.size() < 1 << 16; --i)
          text.insert(at, text.substr(at, length));
        return;
      case 5: {
        const std::string& other = any();
        const auto [from, bytes] = part_of(other);
        text.insert(at, other.substr(from, bytes));
        return;
      }
      default: {  // a number that's too large
        const std::uint64_t number = UINT64_MAX >> below(64);
        for (std::size_t i = 0; i < 8 && at + i < text.size() && i <= length; ++i)
          text[at + i] = static_cast<char>(number >> (8 * i));
        return;
      }
    }
  }

  const std::vector<std::string>& corpus_;
  std::mt19937_64 random_;
};

void run(FuzzTarget target, const std::string& input, const std::string& keep) {
  if (!keep.empty()) write_text(keep, input);
  const auto bytes = std::as_bytes(std::span(input));
  const std::vector<std::byte> copy(bytes.begin(), bytes.end());  // reads past the end are found
  run_target(target, as_text(copy));
}

int replay(FuzzTarget target, const std::string& directory, std::uint64_t count, std::uint64_t seed,
           const std::string& keep) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory))
    names.push_back(entry.path().string());
  std::ranges::sort(names);
  std::vector<std::string> corpus;
  for (const std::string& name : names) {
    corpus.push_back(read_text(name));
    run(target, corpus.back(), keep);
  }
  std::fprintf(stderr, "%zu inputs, %llu made of them with seed %llu\n", corpus.size(),
               static_cast<unsigned long long>(count), static_cast<unsigned long long>(seed));
  if (corpus.empty()) return 1;
  Mutator mutator(corpus, seed);
  for (std::uint64_t i = 0; i < count; ++i) run(target, mutator.next(), keep);
  return 0;
}

}  // namespace
}  // namespace hfshard

int main(int argc, char** argv) {
  const auto* const target = std::ranges::find(
      hfshard::kTargets, argc > 1 ? std::string_view(argv[1]) : std::string_view(),
      &hfshard::NamedTarget::name);
  if (argc < 3 || target == std::end(hfshard::kTargets)) return 2;
  const auto number = [&](int at, std::uint64_t standard) {
    return argc > at ? std::strtoull(argv[at], nullptr, 10) : standard;
  };
  return hfshard::replay(target->run, argv[2], number(3, 0), number(4, 1), argc > 5 ? argv[5] : "");
}
