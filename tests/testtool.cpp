// hfshard_testtool: hfshard with sizes that users can't set, so that tiny fixtures have many
// chunks, tiles, files and journal records. The command line is the same. Anywhere in it, it also
// takes each of these options once:
//
// - `--limits name=value,...`: fields of plan/layout/limits.h
// - `--die-at N`: kills the process before the N-th system call that can change a file or directory
// - `--stop-at N`: stops the process (SIGSTOP) before the N-th system call of any kind
// - `--fail-at N:ERRNO`: the N-th system call of any kind fails with this error number
// - `--count-calls FILE`: writes the number of calls that `--die-at` counts, and that of all calls
// - `--stall CALL:N:MS`: the N-th call of this kind waits, like on a disk that hangs
// - `--progress-ms N`: the time between two lines of progress without a terminal
// - `--retry-ms N`: the shortest wait before it asks a hub again
//
// hfshard never writes out data that it reads, so there are two more commands. `dump CHECKPOINT
// LEAF FILE` writes a leaf's elements to a file, packed and row-major. `dump-all CHECKPOINT FILE`
// writes those of all leaves, by name.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/coding.h"
#include "base/text.h"
#include "bytes/local/syscalls.h"
#include "plan/layout/limits.h"
#include "tool/tool.h"

#include "hfshard/hfshard.h"

namespace {

// Writes all arrays if there is no path.
int dump(const std::string& checkpoint, const std::string* path, const std::string& to) {
  const hfshard::CheckpointReader opened = hfshard::open(checkpoint);
  std::size_t begin = 0;
  std::size_t end = opened.info().arrays.size();
  if (path != nullptr) {
    const auto array = opened.find(*path);
    if (!array)
      throw hfshard::Error(hfshard::ErrorCode::not_found, "no such leaf").in_tensor(*path);
    begin = *array;
    end = begin + 1;
  }
  std::ofstream file(to, std::ios::binary);
  for (std::size_t array = begin; array < end; ++array) {
    std::vector<std::byte> elements(opened.info().arrays[array].size_bytes);
    opened.read_rows(array, 0, elements);
    file << hfshard::as_text(elements);
  }
  return file.flush() ? 0 : 4;
}

int dump_main(const std::vector<const char*>& words) {
  const bool all = std::string_view(words[1]) == "dump-all";
  if (words.size() != (all ? 4U : 5U)) {
    std::fputs("hfshard_testtool: dump CHECKPOINT LEAF FILE or dump-all CHECKPOINT FILE\n", stderr);
    return 2;
  }
  try {
    if (all) return dump(words[2], nullptr, words[3]);
    const std::string path = words[3];
    return dump(words[2], &path, words[4]);
  } catch (const hfshard::Error& error) {
    std::fprintf(stderr, "hfshard_testtool: %s\n", error.format().c_str());
    return hfshard::exit_status(error.code());
  }
}

bool set_limits(hfshard::Limits& limits, std::string_view text) {
  using L = hfshard::Limits;
  const std::map<std::string, std::uint64_t L::*> fields = {
      {"floor_bytes", &L::floor_bytes},
      {"fan_bytes", &L::fan_bytes},
      {"fan_small_bytes", &L::fan_small_bytes},
      {"slab_bytes", &L::slab_bytes},
      {"run_bytes", &L::run_bytes},
      {"link_piece_bytes", &L::link_piece_bytes},
      {"file_min_bytes", &L::file_min_bytes},
      {"file_max_bytes", &L::file_max_bytes},
      {"file_share", &L::file_share},
      {"outer_shards", &L::outer_shards},
      {"alignment_bytes", &L::alignment_bytes},
      {"merge_bytes", &L::merge_bytes},
      {"segment_bytes", &L::segment_bytes},
      {"unpack_bytes", &L::unpack_bytes},
      {"part_run_bytes", &L::part_run_bytes},
      {"commit_bytes", &L::commit_bytes},
      {"request_bytes", &L::request_bytes},
      {"commit_ms", &L::commit_ms},
      {"cached_bytes", &L::cached_bytes}};
  for (const std::string& part : hfshard::split(text, ',')) {
    const std::size_t equals = part.find('=');
    const auto field = fields.find(part.substr(0, equals));
    if (equals == std::string::npos || field == fields.end()) return false;
    limits.*(field->second) = std::strtoull(part.c_str() + equals + 1, nullptr, 10);
  }
  return true;
}

// Takes an option of this program and its value out of the command line. Null if it isn't there.
const char* take_option(std::vector<const char*>& words, std::string_view name) {
  for (std::size_t i = 1; i + 1 < words.size(); ++i) {
    if (words[i] != name) continue;
    const char* value = words[i + 1];
    const auto at = words.begin() + static_cast<std::ptrdiff_t>(i);
    words.erase(at, at + 2);
    return value;
  }
  return nullptr;
}

std::atomic<long> g_changing_calls{0};
std::atomic<long> g_stop_calls{0};
std::string g_stop_call;  // empty: each call that can change something
long g_stop_at = 0;
long g_die_at = 0;
std::atomic<long> g_all_calls{0};
long g_fail_at = 0;
int g_fail_with = 0;

// Skips calls that only read or sync, since they don't change anything that outlives the process.
// The next call shows the result of opening. So a kill at these calls can't show more.
bool is_changing(const char* call) {
  static constexpr std::string_view kChanging[] = {"pwrite", "truncate", "mkdir",   "rename",
                                                   "unlink", "rmdir",    "symlink", "renameat2",
                                                   "link",   "clone"};
  return std::ranges::find(kChanging, call) != std::end(kChanging);
}

int count_call(const char* call, const char* /*path*/) {
  const bool changing = is_changing(call);
  const bool stops = g_stop_call.empty() ? changing : g_stop_call == call;
  if (stops && ++g_stop_calls == g_stop_at) std::raise(SIGSTOP);
  if (changing && ++g_changing_calls == g_die_at) std::raise(SIGKILL);
  return ++g_all_calls == g_fail_at ? g_fail_with : 0;
}

void set_stop(const std::string& text) {
  const std::size_t colon = text.find(':');
  if (colon != std::string::npos) g_stop_call = text.substr(0, colon);
  const std::size_t number = colon == std::string::npos ? 0 : colon + 1;
  g_stop_at = std::strtol(text.c_str() + number, nullptr, 10);
}

bool set_failure(const std::string& text) {
  const std::vector<std::string> parts = hfshard::split(text, ':');
  if (parts.size() != 2) return false;
  g_fail_at = std::strtol(parts[0].c_str(), nullptr, 10);
  g_fail_with = static_cast<int>(std::strtol(parts[1].c_str(), nullptr, 10));
  return g_fail_with > 0;
}

bool write_count(const char* path) {
  std::ofstream file(path);
  file << g_changing_calls << '\n' << g_all_calls << '\n';
  return file.flush().good();
}

std::atomic<long> g_calls_left{0};
std::string g_stalled_call;
long g_stall_ms = 0;

int stall(const char* call, const char* /*path*/) {
  if (g_stalled_call == call && --g_calls_left == 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(g_stall_ms));
  return 0;
}

bool set_stall(const std::string& text) {
  const std::vector<std::string> parts = hfshard::split(text, ':');
  if (parts.size() != 3) return false;
  g_stalled_call = parts[0];
  g_calls_left = std::strtol(parts[1].c_str(), nullptr, 10);
  g_stall_ms = std::strtol(parts[2].c_str(), nullptr, 10);
  hfshard::sys::set_fault_hook(&stall);
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  hfshard::Limits limits;
  std::vector<const char*> rest(argv, argv + argc);
  if (rest.size() > 1 && std::string_view(rest[1]).starts_with("dump")) return dump_main(rest);
  if (const char* text = take_option(rest, "--limits"); text && !set_limits(limits, text)) {
    std::fputs("hfshard_testtool: unknown limit\n", stderr);
    return 2;
  }
  const char* stop_at = take_option(rest, "--stop-at");
  const char* die_at = take_option(rest, "--die-at");
  const char* counts = take_option(rest, "--count-calls");
  if (stop_at != nullptr) set_stop(stop_at);
  if (die_at != nullptr) g_die_at = std::strtol(die_at, nullptr, 10);
  const char* failure = take_option(rest, "--fail-at");
  if (failure != nullptr && !set_failure(failure)) {
    std::fputs("hfshard_testtool: --fail-at N:ERRNO\n", stderr);
    return 2;
  }
  if (stop_at != nullptr || die_at != nullptr || failure != nullptr || counts != nullptr)
    hfshard::sys::set_fault_hook(&count_call);
  if (const char* text = take_option(rest, "--stall"); text && !set_stall(text)) {
    std::fputs("hfshard_testtool: --stall CALL:N:MS\n", stderr);
    return 2;
  }
  const char* every = take_option(rest, "--progress-ms");
  const unsigned long interval = every ? std::strtoul(every, nullptr, 10) : 30'000;
  const char* retry = take_option(rest, "--retry-ms");
  const unsigned long wait = retry ? std::strtoul(retry, nullptr, 10) : 1000;
  const int status =
      hfshard::tool_main(static_cast<int>(rest.size()), rest.data(), &limits,
                         static_cast<unsigned>(interval), static_cast<unsigned>(wait));
  if (counts != nullptr && !write_count(counts)) {
    std::fputs("hfshard_testtool: can't write the count\n", stderr);
    return 4;
  }
  return status;
}
